"""Which page of a scan is asked for next, against a sorted list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.identifiers import Offset, Partition, TableId
from router.data.requests import SCAN_PAGE_MAX, ScanRequest, ScanResult, ScanWalk

TABLE = TableId("AAECAwQFBgcICQoLDA0ODw")
P0, P1 = Partition(0), Partition(1)

keys = st.binary(min_size=1, max_size=3) | st.sampled_from([b"a", b"a\x00", b"a\x00\x00", b"\xff", b"\xff\xff"])


def page_of(model: list[bytes], request: ScanRequest) -> ScanResult:
    inside = [key for key in model if key >= request.start and (request.end is None or key < request.end)]
    inside.sort(reverse=request.reverse)
    page = inside[: request.limit]
    return ScanResult(page, page, [0] * len(page), len(inside) > len(page), {P0: Offset(9)})


@given(
    st.lists(keys, unique=True, max_size=30),
    st.binary(max_size=2),
    st.none() | keys,
    st.booleans(),
    st.none() | st.integers(0, 12),
    st.integers(1, 5),
)
def test_the_pages_are_the_range(
    model: list[bytes], start: bytes, end: bytes | None, reverse: bool, limit: int | None, first: int
) -> None:
    walk = ScanWalk(ScanRequest(TABLE, start, end, reverse, first), limit)
    found: list[bytes] = []
    while (request := walk.request()) is not None:
        page = page_of(model, request)
        assert len(page.keys) <= request.limit
        found += page.keys
        walk.took(page)
    expected = sorted((key for key in model if key >= start and (end is None or key < end)), reverse=reverse)
    assert found == expected[:limit]


def test_a_later_page_is_no_older_of_the_same_version_and_larger() -> None:
    walk = ScanWalk(ScanRequest(TABLE, limit=1500, after={P1: Offset(3)}, strong=True, lag_max_ms=7))
    assert walk.request() == walk.request(), "a page that was lost is asked for again"
    walk.took(ScanResult([b"a"], [b""], [0], True, {P0: Offset(5)}, {P0: 2}))
    second = walk.request()
    assert second == ScanRequest(
        TABLE,
        b"a\x00",
        limit=SCAN_PAGE_MAX,
        after={P0: Offset(5), P1: Offset(3)},
        lag_max_ms=7,
        table_versions={P0: 2},
    )
    walk.took(ScanResult([b"b"], [b""], [0], True, {P0: Offset(6)}, {P0: 3}))
    third = walk.request()
    assert third is not None
    assert (third.after, third.table_versions) == ({P0: Offset(6), P1: Offset(3)}, {P0: 2})


def test_an_empty_page_ends_the_scan_whatever_it_says() -> None:
    walk = ScanWalk(ScanRequest(TABLE))
    walk.took(ScanResult([], [], [], True, {}))
    assert walk.request() is None
