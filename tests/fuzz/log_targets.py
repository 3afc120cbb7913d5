"""What a log takes from clients, and what it finds on its disk."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Final

from kit.log.engine_steps import HOME, open_log
from kit.log.in_turns import in_turns
from kit.log.sample_batches import read_all
from kit.log.stopped_logs import Stopped, a_life, damaged_disk, kind_of
from kit.log.stored_log import add, columns_of, delete, noop, put

from duramen.testing.machine.memory_disk import MemoryDisk
from fuzz.sealing import sealed_batch, sealed_run, sealed_text
from fuzz.target import Target
from log_tier.embedded import EngineSettings
from log_tier.embedded.repair import LogRepair
from log_tier.embedded.segments.inspection import inspect_segment
from log_tier.embedded.storage.names import LOCK, TOPIC_FILE
from log_tier.embedded.verification import verify_log
from log_tier.model.barrier import Barrier, barrier_batch
from log_tier.model.batch import Columns, check_batch, decode_batch, encode_batch
from log_tier.model.batch_header import place_of, split_batches, stamp_batch
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from log_tier.model.log import Topic
from log_tier.model.record import Condition, Expiry
from serving_tier.fold.fold import fold
from serving_tier.index.memory_index import MemoryIndex

__all__ = ["log_targets", "stored_samples"]

_PLACE: Final = PartitionId(TableId("AAECAwQFBgcICQoLDA0ODw"), Partition(3))
_QUICK_INPUTS: Final = 150
"""A whole log is verified for each: 3 ms."""
_OPENED_INPUTS: Final = 60
"""A whole log is opened for each."""
_SETTINGS: Final = EngineSettings(segment_bytes=1024, index_every_bytes=200, journal_bytes=1500)
_APPENDS: Final = 12
"""As few as two segments and a turn of the journal take: all of it is verified for each input."""
_MEMORY: Final = Path("/dev/shm")
_EMPTY: Final = MemoryIndex()
"""What every accepted batch is folded over; nothing is kept of it."""


def _batches() -> list[bytes]:
    version = {"condition": Condition.VERSION, "version": 4}
    soon = {"expiry": Expiry.TTL, "expiry_ms": 500}
    groups = [put(b"{a}1", b"x"), put(b"{a}2", b"y", grouped=True), delete(b"{a}3", grouped=True)]
    return [
        encode_batch(columns_of([put(b"k%d" % number, b"v" * (number % 7)) for number in range(12)])),
        encode_batch(columns_of([put(b"even", b"value")] * 8), producer_id=7, sequence=40),
        encode_batch(columns_of([put(b"long", b"v" * 900), put(b"other", b"v" * 900)]), compress=True),
        encode_batch(columns_of([add(b"n", b"1"), add(b"n", b"-2.5", **version), delete(b"n"), noop()])),
        encode_batch(columns_of([*groups, put(b"t", b"", **soon), put(b"t", b"", condition=Condition.ABSENT)])),
        encode_batch(Columns([b"a", b"b"], [b"1", b"2"], deltas=[0, 4]), span=6),
        barrier_batch(Barrier(2, 10, "empty:3/4", (1,)), producer_id=5, sequence=1),
    ]


def stored_samples() -> list[bytes]:
    runs, at = [], 0
    for batch in _batches():
        stamped = stamp_batch(batch, base_offset=Offset(at), timestamp_ms=at + 1000, unsynced=0, place=place_of(_PLACE))
        at += check_batch(batch).span
        runs.append(stamped)
    return [b"".join(runs), *runs]


def _accepted(data: bytes) -> None:
    """What a log accepts, every replica decodes and folds."""
    check_batch(data)
    try:
        stored = stamp_batch(data, base_offset=Offset(9), timestamp_ms=2000, unsynced=0, place=place_of(_PLACE))
        fold([decode_batch(stored, place_of(_PLACE))], _EMPTY, applied=Offset(8), log_time_ms=1000)
    except DuramenError as error:
        raise AssertionError(f"the log accepts a batch that no replica can fold: {error!r}") from error


def _run(data: bytes) -> None:
    for batch in split_batches(data):
        decode_batch(batch, place_of(_PLACE))


@cache
def _life(*, clean: bool, alone: bool = False) -> Stopped:
    """The same files in every run: an input is a number."""
    return in_turns(lambda: a_life(clean=clean, alone=alone, appends=_APPENDS, settings=_SETTINGS))


def _files(kind: str, *, clean: bool) -> Sequence[bytes]:
    stopped = _life(clean=clean)
    return [content.rstrip(b"\0") or content[:64] for path, content in stopped.files.items() if kind_of(path) == kind]


def _file_of_a_log(clean: bool, path: Path, data: bytes) -> None:
    for finding in verify_log(HOME, disk=damaged_disk(_life(clean=clean), path, data), settings=_SETTINGS):
        assert finding.message, "a finding without a word"


def _opened_log(stopped: Callable[[], Stopped], path: Path, data: bytes) -> None:
    """The log is opened and read, or is refused."""
    disk = damaged_disk(stopped(), path, data)
    in_turns(lambda: _read_log(disk, stopped().topic))


async def _read_log(disk: MemoryDisk, topic: Topic) -> None:
    log = await open_log(disk, _SETTINGS)
    for number in range(topic.partitions):
        await read_all(log, topic.id, number)


def _repaired(clean: bool, path: Path, data: bytes) -> None:
    """From a copy: the log is whole again, or is refused."""
    disk, copy = damaged_disk(_life(clean=clean), path, data), damaged_disk(_life(clean=clean))
    with LogRepair(HOME, copy=HOME, disk=disk, copy_disk=copy, settings=_SETTINGS) as repair:
        if repair.plan().refusals:
            return
        repair.carry_out()
    for finding in verify_log(HOME, disk=disk, settings=_SETTINGS):
        assert not finding.is_damage, f"behind the repair: {finding.message}"


def _inspected(path: Path, data: bytes) -> None:
    """What `duramen log dump` shows of a segment in its folder."""
    folder = Path(_folder().name) / path.parent.relative_to(HOME)
    folder.mkdir(parents=True, exist_ok=True)
    (folder.parent / TOPIC_FILE).write_bytes(b'{"name": "flights"}')
    (folder / path.name).write_bytes(data)
    for _ in inspect_segment(folder / path.name):
        pass


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One for all inputs of this process; it goes with the process."""
    return tempfile.TemporaryDirectory(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)


def _in_a_log() -> Iterator[Target]:
    """Each kind of file but the lock, of which nobody reads more than a number for a message."""
    for clean in (True, False):
        life = partial(_life, clean=clean)
        for kind, path in {kind_of(path): path for path in sorted(life().files, reverse=True)}.items():
            if path.name == LOCK:
                continue
            name = f"{kind} of a log that was {'closed' if clean else 'killed'}"
            read = partial(_file_of_a_log, clean, path)
            samples = partial(_files, kind, clean=clean)
            yield Target(name, samples, read, quick_inputs=_QUICK_INPUTS)
            opened = Target(f"{name}, opened", samples, partial(_opened_log, life, path), quick_inputs=_OPENED_INPUTS)
            yield opened
            if kind == "segment":
                seal = partial(sealed_run, place=place_of(life().topic.partition(int(path.parent.name))))
                yield Target(f"{name}, sealed", samples, read, seal=seal, quick_inputs=_QUICK_INPUTS)
                yield replace(opened, name=f"{name}, opened and sealed", seal=seal)
                yield replace(opened, name=f"{name}, repaired", read=partial(_repaired, clean, path))
                yield Target(f"{name}, inspected", samples, partial(_inspected, path), quick_inputs=_QUICK_INPUTS)
            if path.suffix == ".json":
                yield Target(f"{name}, sealed", samples, read, seal=sealed_text, quick_inputs=_QUICK_INPUTS)


def _ends() -> Iterator[Target]:
    """The newest segments of a log that was killed, whose last commits no frame of the journal holds."""
    life = partial(_life, clean=False, alone=True)
    newest = {path.parent: path for path in sorted(life().files) if kind_of(path) == "segment"}
    for path in newest.values():
        content = life().files[path]  # with the room that is reserved behind it: what is shorter was cut
        samples = partial(list[bytes], [content, content.rstrip(b"\0") + bytes(64)])
        read = partial(_opened_log, life, path)
        name = f"end of partition {path.parent.name}"
        yield Target(f"{name}, opened", samples, read, quick_inputs=_OPENED_INPUTS)
        seal = partial(sealed_run, place=place_of(life().topic.partition(int(path.parent.name))))
        yield Target(f"{name}, opened and sealed", samples, read, seal=seal, quick_inputs=_OPENED_INPUTS)


def log_targets() -> Iterator[Target]:
    """Batches of clients, runs of stored batches, and each kind of file among the others of its log."""
    yield Target("batch of a client", _batches, _accepted)
    yield Target("batch of a client, sealed", _batches, _accepted, seal=sealed_batch)
    yield Target("run of stored batches", stored_samples, _run)
    yield Target(
        "run of stored batches, sealed", stored_samples, _run, seal=partial(sealed_run, place=place_of(_PLACE))
    )
    yield from _in_a_log()
    yield from _ends()
