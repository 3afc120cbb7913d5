"""Requests for what a table had: reads and scans that name a state. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NOTHING, Offset, Partition, PartitionId
from router.data.past.asked_past import AskedPast
from router.data.requests import PAST_VERSIONS_MAX, PastRead, PastScan, ReadPart, ScanRequest

__all__ = ["check_versions", "in_past", "past_part", "present_versions"]


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


def present_versions(place: PartitionId, key: bytes, after: Offset, versions: int) -> ReadPart:
    """A read of the newest versions of a key, from a state that holds the offset `after`."""
    return ReadPart(place, (key,), after, past=PastRead(versions=versions))


def in_past(past: AskedPast, request: ScanRequest) -> ScanRequest:
    """The first page of a scan, of a state. Raises `InvalidToken` where the token names no offset of a partition."""
    if not past.time_ms:
        for partition in request.partitions_asked(past.table.partitions, past.table.partitioner):
            past.offset(partition)
    return replace(request, after=past.offsets, strong=bool(past.time_ms), past=PastScan(past.time_ms))
