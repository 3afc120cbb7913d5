"""Digests of a pinned read: equal for equal content however it came to be, different for one bit, named to the key."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, delete, put

from log_tier.model.errors import InvalidRequest, LimitExceeded, ShuttingDown
from log_tier.model.identifiers import PartitionId
from log_tier.model.partitioner import slot_of
from log_tier.model.record import Expiry
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.service import content_digest as module
from serving_tier.service.content_digest import BUCKETS_MAX, ContentDigest, digest_pinned

KEYS = [b"%d" % n for n in range(300)] + [b"{user%d}.cart" % n for n in range(30)]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[LmdbIndex]:
    opened = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    yield opened
    opened.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[LmdbIndex]:
    opened = LmdbIndex.open(tmp_path / "other", partition=PartitionId(TABLE, PARTITION))
    yield opened
    opened.close()


def digest(index: LmdbIndex, buckets: int = 64, **how: object) -> ContentDigest:
    with index.pinned() as pinned:
        return digest_pinned(pinned, buckets=buckets, **how)  # type: ignore[arg-type]


def alter(index: LmdbIndex, key: bytes, stored: bytes | None) -> None:
    """Change the stored form of one key behind the index's back, as a bug or a bad disk would."""
    with index._env.begin(index._data, write=True) as txn:
        if stored is None:
            txn.delete(key)
        else:
            txn.put(key, stored)


def stored_of(index: LmdbIndex, key: bytes) -> bytes:
    with index._env.begin(index._data) as txn:
        return bytes(txn.get(key))


@pytest.fixture
def both(index: LmdbIndex, other: LmdbIndex) -> tuple[LmdbIndex, LmdbIndex]:
    """Two indexes that folded one log in chunks of their own."""
    log = StoredLog()
    for _ in range(2):
        for key in KEYS:
            log.append(put(key, b"v" + key))
    for batch in log.batches:
        index.apply(batch)
    other.apply(b"".join(log.batches))
    return index, other


def test_equal_content_has_equal_digests(both: tuple[LmdbIndex, LmdbIndex]) -> None:
    first, second = map(digest, both)
    assert first == second
    assert (first.offset, first.keys, len(first.digests), first.listed) == (both[0].applied, len(KEYS), 64, [])
    assert {len(each) for each in first.digests} == {16}
    assert len(set(first.digests)) == 64


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored[:-1] + b"\x00",
        lambda stored: stored + b"\x00",
        lambda stored: bytes([stored[0] ^ 1]) + stored[1:],
        lambda stored: stored[:7] + b"\x01" + (2**62).to_bytes(8, "little") + stored[8:],
        lambda stored: None,
    ],
    ids=["value", "longer", "version", "expiry", "missing"],
)
def test_one_altered_key_changes_its_bucket_and_is_named(both: tuple[LmdbIndex, LmdbIndex], change: object) -> None:
    other = both[1]
    key = b"{user7}.cart"
    alter(other, key, change(stored_of(other, key)))  # type: ignore[operator]
    first, second = map(digest, both)
    differing = [at for at in range(64) if first.digests[at] != second.digests[at]]
    assert differing == [slot_of(key) % 64]
    mine, theirs = (set(digest(each, listed=differing).listed) for each in both)
    assert {each.key for each in mine ^ theirs} == {key}
    assert len(mine) > 1


def test_a_listing_tells_versions_and_hashes(index: LmdbIndex) -> None:
    log = StoredLog()
    index.apply(log.append(put(b"b", b"same"), put(b"a", b"same"), put(b"c", b"other"), put(b"d", b"1")))
    index.apply(log.append(delete(b"d")))
    found = digest(index, 1, listed=[0])
    assert [(each.key, each.version) for each in found.listed] == [(b"a", 1), (b"b", 0), (b"c", 2)]
    a, b, c = (each.hash for each in found.listed)
    assert a == b != c
    assert len(a) == 16


def test_what_has_expired_does_not_count(index: LmdbIndex, other: LmdbIndex) -> None:
    """Whether an expired entry was removed already depends on chunks; the content does not."""
    log = StoredLog()
    log.append(put(b"a", b"1"), put(b"b", b"1", expiry=Expiry.TTL, expiry_ms=10))
    before = log.batches[0]
    index.apply(before)
    assert digest(index).keys == 2
    later = log.append(put(b"c", b"1"), later_ms=100)
    index.apply(later)
    other.apply(before + later)
    assert digest(index) == digest(other)
    assert digest(index).keys == 2


@given(st.lists(st.tuples(st.integers(0, 20), st.one_of(st.none(), st.binary(max_size=4))), max_size=40), st.data())
@settings(max_examples=25, deadline=None)
def test_digests_are_equal_where_the_live_content_is(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, bytes | None]], data: st.DataObject
) -> None:
    log = StoredLog()
    for key, value in steps:
        name = b"%d" % key
        said: Said = delete(name) if value is None else put(name, value)
        log.append(said)
    made = []
    for _ in range(2):
        cut = data.draw(st.integers(0, len(log.batches)))
        folder = tmp_path_factory.mktemp("digest") / "index"
        index = LmdbIndex.open(folder, partition=PartitionId(TABLE, PARTITION))
        index.apply(b"".join(log.batches[:cut]))
        index.apply(b"".join(log.batches[cut:]))
        found = digest(index, 8, listed=range(8))
        made.append(found)
        assert found.keys == len(found.listed) == index.count()
        assert [each.key for each in found.listed] == sorted(each.key for each in found.listed)
        index.close(clean=False)
    assert made[0] == made[1]


def test_hashing_in_pieces_changes_nothing(both: tuple[LmdbIndex, LmdbIndex]) -> None:
    assert digest(both[0], held_bytes=500, check_every=7) == digest(both[0])


def test_buckets_that_do_not_exist(index: LmdbIndex) -> None:
    for buckets in (0, -1, BUCKETS_MAX + 1):
        with pytest.raises(InvalidRequest, match=f"1 to 16384 buckets, not {buckets}"):
            digest(index, buckets)
    with pytest.raises(InvalidRequest, match="bucket 8 cannot be listed"):
        digest(index, 8, listed=[7, 8])
    assert len(digest(index, BUCKETS_MAX).digests) == BUCKETS_MAX


def test_a_listing_has_a_limit(both: tuple[LmdbIndex, LmdbIndex], monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(digest(both[0], 1, listed=[0], listed_keys_max=len(KEYS)).listed) == len(KEYS)
    with pytest.raises(LimitExceeded, match="list fewer buckets, or make more of them") as caught:
        digest(both[0], 1, listed=[0], listed_keys_max=10)
    assert caught.value.fields == {"limit": 10, "size": 11}
    monkeypatch.setattr(module, "LISTED_BYTES_MAX", 600)
    with pytest.raises(LimitExceeded, match="may have 50000 keys and 600 bytes"):
        digest(both[0], 1, listed=[0])


def test_a_long_one_asks_whether_it_is_still_wanted(both: tuple[LmdbIndex, LmdbIndex]) -> None:
    asked: list[int] = []

    def check() -> None:
        asked.append(1)
        if len(asked) == 3:
            raise ShuttingDown("nobody wants it")

    with pytest.raises(ShuttingDown):
        digest(both[0], check=check, check_every=100)
    assert len(asked) == 3
