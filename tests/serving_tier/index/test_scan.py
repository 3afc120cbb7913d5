from __future__ import annotations

from log_tier.model.identifiers import Offset
from serving_tier.fold.entry import stored_entry
from serving_tier.index.index import ScanPage
from serving_tier.index.scan import digest_of, take_page


def page_of(pairs: list[tuple[bytes, bytes]], *, log_time_ms: int, limit: int = 9, bytes_max: int = 99) -> ScanPage:
    return take_page(pairs, log_time_ms=log_time_ms, limit=limit, bytes_max=bytes_max, applied=Offset(7))


def test_a_page_knows_of_more_only_if_what_follows_is_live() -> None:
    pairs = [(b"a", stored_entry(b"1", 0, 0)), (b"b", stored_entry(b"2", 1, 50)), (b"c", stored_entry(b"3", 2, 0))]
    assert page_of(pairs[:2], log_time_ms=49, limit=1).more is True
    assert page_of(pairs[:2], log_time_ms=50, limit=1).more is False
    assert page_of(pairs, log_time_ms=50, limit=2).keys == [b"a", b"c"]


def test_a_page_ends_with_the_entry_that_reaches_its_bytes() -> None:
    pairs = [(b"a", stored_entry(b"1", 0, 0)), (b"b", stored_entry(b"2", 1, 0)), (b"c", stored_entry(b"3", 2, 0))]
    pages = [page_of(pairs, log_time_ms=0, bytes_max=most) for most in (1, 10, 11, 20, 30)]
    assert [len(page.keys) for page in pages] == [1, 1, 2, 2, 3]
    assert [page.more for page in pages] == [True, True, True, True, False]


def test_a_page_has_the_columns_of_its_entries() -> None:
    plain, expiring = (b"a", stored_entry(b"1", 5, 0)), (b"b", stored_entry(b"22", 6, 50))
    assert page_of([plain], log_time_ms=9) == ([b"a"], [b"1"], [5], None, False, 7)
    assert page_of([plain, expiring], log_time_ms=9) == ([b"a", b"b"], [b"1", b"22"], [5, 6], [0, 50], False, 7)
    assert page_of([plain, expiring], log_time_ms=9).entries == [(b"a", (b"1", 5, 0)), (b"b", (b"22", 6, 50))]
    assert page_of([], log_time_ms=9) == ([], [], [], None, False, 7)


def test_a_digest_tells_keys_values_versions_and_expiries_apart() -> None:
    variants = [
        [(b"ab", stored_entry(b"c", 1, 0))],
        [(b"a", stored_entry(b"bc", 1, 0))],
        [(b"ab", stored_entry(b"d", 1, 0))],
        [(b"ab", stored_entry(b"c", 2, 0))],
        [(b"ab", stored_entry(b"c", 1, 9))],
        [],
    ]
    digests = {digest_of(pairs, log_time_ms=0) for pairs in variants}
    assert len(digests) == len(variants)
    assert digest_of(variants[4], log_time_ms=9) == digest_of([], log_time_ms=0)


def test_a_digest_does_not_depend_on_how_much_there_is_at_once() -> None:
    many = [(b"%05d" % n, stored_entry(b"v", n, 0)) for n in range(3500)]
    expired = (b"x", stored_entry(b"v", 1, 5))
    assert digest_of(many, log_time_ms=9) == digest_of([expired, *many], log_time_ms=9)
    assert digest_of(many, log_time_ms=9) != digest_of(many[:-1], log_time_ms=9)
