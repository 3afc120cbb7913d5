"""Requests for what a table had: a state, and the reads and scans that name it. Clients and endpoints share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from log_tier.model.errors import DuramenError, InvalidRequest, InvalidToken
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.table_ref import TableRef
from router.data.requests import PAST_VERSIONS_MAX, PastRead, PastScan, ReadPart, ScanRequest
from router.data.seam import TableAdmin

__all__ = ["AskedPast", "check_versions", "in_past", "past_part", "present_versions", "refused_state"]


class AskedPast(NamedTuple):
    """A state that a read of the past names, and the table."""

    table: TableRef
    offsets: Mapping[Partition, Offset]
    """Those that a token names; it may name some of the partitions alone."""
    time_ms: int = 0
    """The last state of each partition that is not later, in ms since 1970; 0: the offsets name it."""

    def offset(self, partition: Partition, what: str = "which the read covers") -> Offset:
        """The offset of one partition. Raises `InvalidToken`. `what`: what the partition has to do with the read."""
        offset = self.offsets.get(partition)
        if offset is None:
            raise InvalidToken(
                f"the token names no offset of partition {partition} of {self.table.name}, {what}: take one of the "
                "whole table (end_token()), or of a write to that partition"
            )
        return offset


def check_versions(limit: int) -> int:
    """How many versions of a key are asked for. Raises `InvalidRequest`."""
    if type(limit) is not int or not 1 <= limit <= PAST_VERSIONS_MAX:
        raise InvalidRequest(f"limit is 1 to {PAST_VERSIONS_MAX} versions, not {limit!r}")
    return limit


def past_part(past: AskedPast, partition: Partition, keys: Sequence[bytes], versions: int = 0) -> ReadPart:
    """A read of keys of one partition as they were, or of the versions of one up to then. Raises `InvalidToken` where
    the token names no offset of the partition.
    """
    place = past.table.partition(partition)
    if past.time_ms:
        # What the log has now decides which record is the last one of a time.
        return ReadPart(place, keys, NOTHING, True, past=PastRead(None, past.time_ms, versions))
    offset = past.offset(partition, f"in which {'this key is' if len(keys) == 1 else 'some of these keys are'}")
    return ReadPart(place, keys, offset, past=PastRead(offset, 0, versions))


def present_versions(table: TableRef, partition: Partition, key: bytes, after: Offset, versions: int) -> ReadPart:
    """A read of the newest versions of a key, from a state that holds the offset `after`."""
    return ReadPart(table.partition(partition), (key,), after, past=PastRead(versions=versions))


def in_past(past: AskedPast, request: ScanRequest) -> ScanRequest:
    """The first page of a scan, of a state. Raises `InvalidToken` where the token names no offset of a partition."""
    if not past.time_ms:
        for partition in request.partitions_asked(past.table.partitions, past.table.partitioner):
            past.offset(partition)
    return replace(request, after=past.offsets, strong=bool(past.time_ms), past=PastScan(past.time_ms))


async def refused_state(admin: TableAdmin, table: TableRef, refused: InvalidToken, timeout: float) -> DuramenError:
    """Why a table is not read at a state that `past_part` or `in_past` refused: it keeps no history, where that is so,
    whatever the token names. One request. Raises `TableNotFound`.
    """
    definition = await admin.definition(table.id, timeout=timeout)
    if definition is not None and definition.keeps is not None:
        return refused
    return InvalidRequest(
        f"table {table.name} keeps no history: only a table that was created with history= is read as it was"
    )
