"""The stored format of an index: which LMDB databases there are and what a row of each looks like.

This file and `serving_tier.fold.entry` (the rows of `data`) are the only ones that build or parse them;
`docs/FORMATS.md` specifies the same with a worked example. Numbers inside keys are big-endian, so that LMDB's order is
theirs; numbers inside values are little-endian.

    data             key                        →  flags and version, expiry if any, value
    meta             "identity"                 →  format version u32, partition u32, table id 16 bytes
                     "state"                    →  applied offset i64, log time ms i64, verdicts from i64; and, since
                                                   version 2, from the first fold on, of the last batch: base offset
                                                   i64, records u32, timestamp ms i64, producer id u64, sequence u64,
                                                   checksum u32; and, since version 3, of the minute under way in the
                                                   tally: minute u32, minutes u32, first i64, last i64, count u64,
                                                   checksum u64
                     "tally"                    →  since i64, number of periods u32; of each the same as above
                     "start"                    →  first offset i64; only where that is not 0
                     "void"                     →  records that no table can hold, counted u64; only where there are
                     "version"                  →  which version of the table this is u32; only where that is not 1
                     "definition"               →  what the table's keys and values are, JSON; only where not bytes
                     "builds"                   →  indexes that are being built, each with the last key that is in, and
                                                   those that were dropped, JSON; only while there are such
                     "history"                  →  the offset from which on the past is known i64; only for tables
                                                   that keep a history, once something was folded
                     "live"                     →  live version u32, since offset i64, job i64; only after a swap
    producers        producer id u64            →  base sequence u64, base offset i64, span u32
    producer_order   base offset u64            →  producer id u64
    verdicts         offset u64                 →  verdict u8, 3 zeros, span u32, actual i64, about i64
    results          offset u64                 →  text
    expiries         expiry ms u64              →  key, once for each key (sorted duplicates)
    ordered          index number u16, elements →  length of the row's key u16, big-endian; only for tables that have
                     of its fields, row's key      ordered indexes

Only for tables that keep a history (`serving_tier.fold.past`):

    history          offset of a change u64     →  what it replaced: since i64, key length u16, key, stored form or
                                                   nothing
    past             key                        →  offset of a change u64, once for each change (sorted duplicates)
    times            base offset u64            →  log time ms i64, of each batch that raised it
    lapsed           key                        →  the stored form of an entry that expired, and was removed from `data`
    lapses           expiry ms u64              →  key, once for each such entry (sorted duplicates)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from log_tier.model.barrier import ORIGINAL, LiveVersion
from log_tier.model.identifiers import (
    NOTHING,
    Offset,
    PartitionId,
    partition_id_from_bytes,
    table_id_to_bytes,
)
from log_tier.rows.definition import TableDefinition
from log_tier.tally.period import Period
from serving_tier.fold.last_batch import LastBatch
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Judgement, Verdict
from serving_tier.index.number_keys import number_key, number_of

__all__ = [
    "APPLIED_OF",
    "BUILDS",
    "DEFINITION",
    "IDENTITY",
    "INDEX_FORMAT_VERSION",
    "LIVE",
    "NEWER_INDEX",
    "READABLE_VERSIONS",
    "START",
    "STATE",
    "TALLY",
    "VERSION",
    "VOID",
    "State",
    "new_state",
    "pack_definition",
    "pack_identity",
    "pack_judgement",
    "pack_live",
    "pack_producer",
    "pack_start",
    "pack_version",
    "pack_void",
    "unpack_definition",
    "unpack_identity",
    "unpack_judgement",
    "unpack_live",
    "unpack_producer",
    "unpack_start",
    "unpack_version",
    "unpack_void",
]

INDEX_FORMAT_VERSION: Final = 3
"""What is written. In version 1 the row `state` ended before the last batch, in version 2 behind it."""

READABLE_VERSIONS: Final = (1, 2, INDEX_FORMAT_VERSION)

NEWER_INDEX: Final = (
    "update this process; the index is kept for a version that reads it. To have this version build it again instead, "
    "stop this process, remove the index's folder, and start it again"
)
"""The advice about an index of a newer format version."""

IDENTITY: Final = b"identity"
STATE: Final = b"state"
START: Final = b"start"
VOID: Final = b"void"
VERSION: Final = b"version"
LIVE: Final = b"live"
TALLY: Final = b"tally"
DEFINITION: Final = b"definition"
BUILDS: Final = b"builds"

_IDENTITY_ROW: Final = struct.Struct("<II16s")
_START_ROW: Final = struct.Struct("<q")
_VOID_ROW: Final = struct.Struct("<Q")
_VERSION_ROW: Final = struct.Struct("<I")
_LIVE_ROW: Final = struct.Struct("<Iqq")
_STATE_ROW: Final = struct.Struct("<qqq")
_LAST_BATCH: Final = struct.Struct("<qIqQQI")
_COUNTING: Final = struct.Struct("<IIqqQQ")
_pack_full_state: Final = struct.Struct("<qqq" + "qIqQQI" + "IIqqQQ").pack
_STATE_ROW_2: Final = struct.Struct("<qqq" + "qIqQQI")
_PRODUCER: Final = struct.Struct("<QqI")
_JUDGEMENT: Final = struct.Struct("<B3xIqq")

APPLIED_OF: Final = struct.Struct("<q").unpack_from
"""The applied offset of the row `state` of `meta`, alone: what every read of a reader process begins with."""


APPLIED_AND_TIME_OF: Final = struct.Struct("<qq").unpack_from
"""The same with the log time: what a read needs that may meet entries with an expiry."""


class State(NamedTuple):
    """The state of an index (applied offset, log time, …): every transaction writes it together with its changes."""

    applied: Offset = NOTHING
    log_time_ms: int = 0
    verdicts_from: Offset = Offset(0)
    last: LastBatch | None = None
    """The batch with the applied offset. None: nothing was folded, or by an earlier version."""
    counting: Period | None = None
    """The minute that is under way in the tally. None: nothing was counted, or by an earlier version."""

    def pack(self) -> bytes:
        """The row `state` of `meta`."""
        applied, log_time_ms, verdicts_from, last, counting = self
        if last is None:
            return _STATE_ROW.pack(applied, log_time_ms, verdicts_from)
        if counting is None:  # levelled with an index of an earlier version
            return _STATE_ROW_2.pack(applied, log_time_ms, verdicts_from, *last)
        return _pack_full_state(applied, log_time_ms, verdicts_from, *last, *counting)

    @classmethod
    def unpack(cls, row: bytes) -> State:
        """Read the row `state` of `meta`. Raises `struct.error` for a row of another size."""
        applied, log_time_ms, verdicts_from = _STATE_ROW.unpack(row[: _STATE_ROW.size])
        last, counting = None, None
        if len(row) > _STATE_ROW.size:
            base_offset, *others = _LAST_BATCH.unpack(row[_STATE_ROW.size : _STATE_ROW_2.size])
            last = LastBatch(Offset(base_offset), *others)
        if len(row) > _STATE_ROW_2.size:
            counting = Period(*_COUNTING.unpack(row[_STATE_ROW_2.size :]))
        return cls(Offset(applied), log_time_ms, Offset(verdicts_from), last, counting)


# As `new_period`: every fold makes a state.
new_state: Final[Callable[[tuple[Any, ...]], State]] = partial(tuple.__new__, State)


def pack_identity(partition: PartitionId) -> bytes:
    """The row `identity` of `meta`."""
    return _IDENTITY_ROW.pack(INDEX_FORMAT_VERSION, partition.partition, table_id_to_bytes(partition.table))


def unpack_identity(row: bytes) -> tuple[int, PartitionId]:
    """Format version and partition. Raises `struct.error` for a row of another size."""
    version, partition, table_id = _IDENTITY_ROW.unpack(row)
    return version, partition_id_from_bytes(table_id, partition)


def pack_start(start: Offset) -> bytes:
    """The row `start` of `meta`: where an index over the topic of others began."""
    return _START_ROW.pack(start)


def unpack_start(row: bytes | None) -> Offset:
    """The first offset that an index holds; there is no row where that is 0. Raises `struct.error`."""
    return Offset(0) if row is None else Offset(_START_ROW.unpack(row)[0])


def pack_definition(definition: TableDefinition) -> bytes:
    """The row `definition` of `meta`: that of the applied offset."""
    return definition.text.encode()


def unpack_definition(row: bytes | None) -> TableDefinition | None:
    """What an index was folded by; there is no row where that is bytes. Raises `ValueError`, and `UnknownFormat` for a
    definition of a newer version.
    """
    try:
        return None if row is None else TableDefinition.from_document(json.loads(row))
    except RecursionError as error:
        raise ValueError("the row of the definition is nested too deep") from error


def pack_void(count: int) -> bytes:
    """The row `void` of `meta`."""
    return _VOID_ROW.pack(count)


def unpack_void(row: bytes | None) -> int:
    """How many records were void; there is no row where none was. Raises `struct.error`."""
    return 0 if row is None else int(_VOID_ROW.unpack(row)[0])


def pack_version(version: int) -> bytes:
    """The row `version` of `meta`: which version of its table an index is."""
    return _VERSION_ROW.pack(version)


def unpack_version(row: bytes | None) -> int:
    """Which version an index is; there is no row in the first one. Raises `struct.error`."""
    return ORIGINAL.version if row is None else int(_VERSION_ROW.unpack(row)[0])


def pack_live(live: LiveVersion) -> bytes:
    """The row `live` of `meta`: the last barrier that was applied."""
    return _LIVE_ROW.pack(*live)


def unpack_live(row: bytes | None) -> LiveVersion:
    """Which version is live as far as an index knows; there is no row before the first swap. Raises `struct.error`."""
    if row is None:
        return ORIGINAL
    version, since, job = _LIVE_ROW.unpack(row)
    return LiveVersion(version, Offset(since), job)


def pack_producer(state: ProducerState) -> bytes:
    """A row of `producers`."""
    return _PRODUCER.pack(*state)


def unpack_producer(row: bytes) -> ProducerState:
    """Read a row of `producers`."""
    base_sequence, base_offset, span = _PRODUCER.unpack(row)
    return ProducerState(base_sequence, Offset(base_offset), span)


def pack_judgement(judgement: Judgement) -> tuple[bytes, bytes]:
    """Key and row of `verdicts`."""
    offset, span, verdict, actual, about = judgement
    return number_key(offset), _JUDGEMENT.pack(verdict, span, actual, about)


def unpack_judgement(key: bytes, row: bytes) -> Judgement:
    """Read a row of `verdicts`. Raises `ValueError` for a verdict of a newer version."""
    verdict, span, actual, about = _JUDGEMENT.unpack(row)
    return Judgement(Offset(number_of(key)), span, Verdict(verdict), actual, Offset(about))
