from __future__ import annotations

from serving_tier.fold.entry import stored_entry
from serving_tier.index.scan import digest_of, take_page


def test_a_page_knows_of_more_only_if_what_follows_is_live() -> None:
    pairs = [(b"a", stored_entry(b"1", 0, 0)), (b"b", stored_entry(b"2", 1, 50)), (b"c", stored_entry(b"3", 2, 0))]
    assert take_page(pairs[:2], log_time_ms=49, limit=1, bytes_max=99)[1] is True
    assert take_page(pairs[:2], log_time_ms=50, limit=1, bytes_max=99)[1] is False
    assert [key for key, _ in take_page(pairs, log_time_ms=50, limit=2, bytes_max=99)[0]] == [b"a", b"c"]


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
