"""Merging pages, against `sorted`."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from router.data.merge import MergedPage, PageMerge, merge_pages, page_share

keys = st.binary(min_size=1, max_size=3) | st.sampled_from([b"\xff", b"\xff\xff", b"\x00", b"a\xff"])


def page_with(found: list[bytes], *, more: bool, value: bytes = b"") -> MergedPage:
    return MergedPage(found, [value] * len(found), [1] * len(found), more)


@settings(deadline=None)
@given(
    partitions=st.lists(st.sets(keys, max_size=12), min_size=1, max_size=5),
    share=st.integers(1, 6),
    limit=st.integers(1, 12),
    value_bytes=st.integers(0, 4),
    bytes_max=st.integers(1, 30),
    reverse=st.booleans(),
)
def test_pages_one_after_the_other_are_the_sorted_whole(
    partitions: list[set[bytes]], share: int, limit: int, value_bytes: int, bytes_max: int, reverse: bool
) -> None:
    """Whatever each partition gives at a time: nothing is left out, nothing comes twice, and each page goes on."""
    # A key lives in one partition only.
    for number, mine in enumerate(partitions):
        for others in partitions[:number]:
            mine -= others
    everything = sorted(set().union(*partitions), reverse=reverse)
    seen: list[bytes] = []
    more = True
    while more:
        last = seen[-1] if seen else None
        pages = []
        for mine in partitions:
            left = sorted(
                (key for key in mine if last is None or (key < last if reverse else key > last)), reverse=reverse
            )
            pages.append(page_with(left[:share], more=len(left) > share, value=bytes(value_bytes)))
        page = merge_pages(pages, limit=limit, bytes_max=bytes_max, reverse=reverse)
        assert len(page.keys) == len(page.values) == len(page.versions) <= limit
        size = sum(len(key) + value_bytes for key in page.keys[:-1])
        assert size < bytes_max, "only the last entry may pass the limit"
        assert page.keys or not page.more, "a page that goes on shows something"
        seen += page.keys
        assert seen == everything[: len(seen)]
        more = page.more
    assert seen == everything


@settings(deadline=None)
@given(
    partitions=st.lists(st.dictionaries(keys, st.booleans(), max_size=12), min_size=1, max_size=5),
    looked=st.integers(1, 4),
    limit=st.integers(1, 12),
    reverse=st.booleans(),
)
def test_pages_that_end_where_nothing_was_found_are_gone_on_from_there(
    partitions: list[dict[bytes, bool]], looked: int, limit: int, reverse: bool
) -> None:
    """Each partition looks at a few keys at a time, of which some have something: nothing is left out, and each page
    comes further.
    """
    for number, mine in enumerate(partitions):
        for others in partitions[:number]:
            for key in others:
                mine.pop(key, None)
    everything = sorted((key for mine in partitions for key, is_there in mine.items() if is_there), reverse=reverse)
    seen: list[bytes] = []
    last: bytes | None = None
    while True:
        pages = []
        for mine in partitions:
            left = sorted(
                (key for key in mine if last is None or (key < last if reverse else key > last)), reverse=reverse
            )
            more = len(left) > looked
            shown = page_with([key for key in left[:looked] if mine[key]], more=more)
            pages.append(shown._replace(reached=left[looked - 1] if more else b""))
        page = merge_pages(pages, limit=limit, bytes_max=100, reverse=reverse)
        seen += page.keys
        assert seen == everything[: len(seen)]
        if not page.more:
            break
        ended = page.reached or page.keys[-1]
        assert last is None or (ended < last if reverse else ended > last)
        last = ended
    assert seen == everything


@settings(deadline=None)
@given(
    partitions=st.lists(st.sets(keys, max_size=12), min_size=1, max_size=8),
    share=st.integers(1, 6),
    limit=st.integers(1, 12),
    sizes=st.lists(st.sampled_from([0, 1, 50]), min_size=1, max_size=5),
    bytes_max=st.integers(1, 30),
    reverse=st.booleans(),
)
def test_pages_merged_as_they_come_show_what_they_show_together(
    partitions: list[set[bytes]], share: int, limit: int, sizes: list[int], bytes_max: int, reverse: bool
) -> None:
    """Though nothing beyond the frontier is read, and little is held."""
    for number, mine in enumerate(partitions):
        for others in partitions[:number]:
            mine -= others
    values = {key: bytes(sizes[sum(key) % len(sizes)]) for mine in partitions for key in mine}

    def page_of(mine: set[bytes], frontier: bytes | None) -> MergedPage:
        wanted = sorted(
            (key for key in mine if frontier is None or (key >= frontier if reverse else key <= frontier)),
            reverse=reverse,
        )
        found = wanted[:share]
        return MergedPage(found, [values[key] for key in found], [sum(key) for key in found], len(wanted) > share)

    merging = PageMerge(limit=limit, bytes_max=bytes_max, reverse=reverse)
    for mine in partitions:
        merging.add(page_of(mine, merging.frontier))
        assert merging.held_bytes <= 2 * (bytes_max + 53)
    merged = merging.merged()
    shown = list(merged.keys)
    assert merged.values == [values[key] for key in shown]
    assert merged.versions == [sum(key) for key in shown]
    everything = sorted(values, reverse=reverse)
    assert shown == everything[: len(shown)]
    assert merged.more or shown == everything
    # A partition that ends at the others' frontier hides nothing from there on, so there may be more than together.
    together = merge_pages(
        [page_of(mine, None) for mine in partitions], limit=limit, bytes_max=bytes_max, reverse=reverse
    )
    assert merged.keys[: len(together.keys)] == together.keys


def test_the_frontier() -> None:
    """`b` may hide something before `d` that it has not shown yet, so `d` waits for the next page."""
    pages = [page_with([b"a", b"d"], more=False), page_with([b"b"], more=True)]
    page = merge_pages(pages, limit=10, bytes_max=1000, reverse=False)
    assert (page.keys, page.more) == ([b"a", b"b"], True)


@settings(deadline=None)
@given(limit=st.integers(1, 10_000), partitions=st.integers(1, 1024))
def test_the_share_covers_the_page(limit: int, partitions: int) -> None:
    share = page_share(limit, partitions)
    assert 1 <= share <= limit
    assert share * partitions >= limit
