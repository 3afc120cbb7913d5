"""What a node reads of an index: rows, pages, whole files; and numbers inside values."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import lmdb

from fuzz.log_targets import stored_samples
from fuzz.target import Target
from log_tier.model.barrier import LiveVersion
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import place_of, stamp_batch
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.rows.tuple_key import pack_key, unpack_key
from serving_tier.fold.entry import NEVER, expiry_of, is_live, stored_entry
from serving_tier.fold.numbers import format_number, parse_number
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Judgement, Verdict
from serving_tier.index.lmdb.folder import verify_index
from serving_tier.index.lmdb.format import (
    State,
    pack_identity,
    pack_judgement,
    pack_live,
    pack_producer,
    pack_version,
    unpack_identity,
    unpack_judgement,
    unpack_live,
    unpack_producer,
    unpack_start,
    unpack_version,
)
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots.manifest import PIECE_BYTES
from serving_tier.snapshots.page_check import PageCheck

__all__ = ["index_files", "index_targets"]

_PLACE: Final = PartitionId(TableId("AAECAwQFBgcICQoLDA0ODw"), Partition(3))
_FIELDS: Final = pack_key("UA", 1545, 2.5, True, date(2013, 1, 1), datetime(2013, 1, 1, 5, tzinfo=UTC))
_ROW_REFUSALS: Final = (DuramenError, struct.error, ValueError)
"""Who reads a row names these as damage."""
_ROWS: Final = 150
"""Of four pages: what has more than 64 KiB is cut."""
_MEMORY: Final = Path("/dev/shm")


def _number(data: bytes) -> None:
    found = parse_number(data)
    if found is not None:
        again = parse_number(format_number(found))
        assert again == found, f"{data!r} is {found!r}, and its text is {again!r}"


def _judgement(data: bytes) -> None:
    key, row = data[:8], data[8:]
    unpack_judgement(key, row)


def _entry(data: bytes) -> None:
    if len(data) >= len(stored_entry(b"", Offset(0), NEVER)):
        is_live(data, 5)
        expiry_of(data)


def _many_rows() -> bytes:
    batch = encode_batch(Columns([b"key %05d" % number for number in range(_ROWS)], [b"value" * 12] * _ROWS))
    return stamp_batch(batch, base_offset=Offset(0), timestamp_ms=1000, unsynced=0, place=place_of(_PLACE))


@cache
def index_files() -> tuple[bytes, ...]:
    """The data files of indexes: a fresh one, one that folded some of everything, and one whose rows fill branches."""
    files = []
    with tempfile.TemporaryDirectory() as name:
        for number, chunks in enumerate(([], stored_samples()[1:-1], [_many_rows()])):
            folder = Path(name) / str(number)
            index = LmdbIndex.open(folder, partition=_PLACE)
            for chunk in chunks:
                index.apply(chunk)
            index.close()
            (folder / "copy").mkdir()
            with lmdb.open(str(folder), max_dbs=9, readonly=True, lock=False) as env:
                env.copy(str(folder / "copy"), compact=True)
            files.append((folder / "copy" / "data.mdb").read_bytes())
    return tuple(files)


def _pages(data: bytes) -> None:
    check = PageCheck("the file")
    for at in range(0, max(len(data), 1), PIECE_BYTES):
        check.feed(data[at : at + PIECE_BYTES])
    check.finish()


def _verified(data: bytes) -> None:
    """A file that was walked is opened by LMDB and read to its end; a crash would end this process."""
    folder = Path(tempfile.mkdtemp(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        (folder / "data.mdb").write_bytes(data)
        verify_index(folder)
        with lmdb.open(str(folder), max_dbs=9, readonly=True, lock=False) as env, env.begin() as txn:
            for name in [bytes(key) for key, _ in txn.cursor()]:
                for _ in txn.cursor(env.open_db(name, txn=txn, create=False)):
                    pass
    finally:
        shutil.rmtree(folder)


def _fields(data: bytes) -> None:
    """A key that is read as fields is the key of these fields."""
    assert pack_key(*unpack_key(data)) == data


def index_targets() -> Iterator[Target]:
    """Rows of `meta`, `producers`, `verdicts` and `data`, numbers, pages of copies, and files of others."""
    rows: dict[str, tuple[Callable[[bytes], object], bytes]] = {
        "identity": (unpack_identity, pack_identity(_PLACE)),
        "state": (State.unpack, State(Offset(7), 1000, Offset(0), None).pack()),
        "start": (unpack_start, bytes(8)),
        "version": (unpack_version, pack_version(2)),
        "live version": (unpack_live, pack_live(LiveVersion(2, Offset(7), 5))),
        "producer": (unpack_producer, pack_producer(ProducerState(4, Offset(7), 3))),
        "verdict": (_judgement, b"".join(pack_judgement(Judgement(Offset(7), 1, next(iter(Verdict)), 3, Offset(2))))),
        "entry": (_entry, stored_entry(b"value", Offset(7), 2000)),
    }
    for name, (read, sample) in rows.items():
        yield Target(f"row of an index: {name}", partial(_one, sample), read, _ROW_REFUSALS)
    yield Target("number in a value", lambda: [b"-12", b"1e3", b"0.30000000000000004", b"9223372036854775807"], _number)
    yield Target("key with fields", lambda: [_FIELDS, pack_key(b"\0", "", 1 << 70, -1, None, UUID(int=1))], _fields)
    yield Target("pages of a copy", index_files, _pages)
    yield Target("file of an index that is walked", index_files, _verified, (DuramenError, lmdb.Error))


def _one(sample: bytes) -> list[Any]:
    return [sample]
