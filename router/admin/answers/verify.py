"""Are the replicas of a partition equal, and the entries of their ordered indexes those of their rows? Digests at one
offset, and where they differ, the keys by name.

The offset is the log's latest one; a replica that has passed it says so, and a later one is chosen, a little ahead
while writes go on. Each replica then answers for the end of the first batch that reaches it, which is the same place
everywhere. Buckets that differ are listed key by key, at a later offset that is again common to all.

Differences are reported, and not repaired: which copy is right is what the log says. `duramen admin restore NODE`
builds a node's replicas anew.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from log_tier.concurrency.backoff import Backoff
from log_tier.model.errors import DeadlineExceeded, DuramenError, OffsetPassed, Overloaded
from log_tier.model.identifiers import Offset, PartitionId, table_id_to_bytes
from log_tier.model.log import Log
from router.admin.answers.json_text import json_text
from router.admin.planners.cluster_view import Situation
from router.membership.views import Membership
from router.proto import admin_pb2 as pb
from serving_tier.proto.node_pb2 import DigestReply, DigestRequest

__all__ = ["DIFFERENCES_MAX", "digest_s", "verify_partition"]

# What is named. Where more keys than this differ, the replica is to be built anew and not to be studied.
DIFFERENCES_MAX: Final = 100

# Attempts at a common offset. Each one is a little further ahead, so the second one usually holds.
_TRIES: Final = 8
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_MAX_S: Final = 2.0

# How far ahead of a replica that passed the offset the next one lies at first, in offsets; doubled with each try.
_AHEAD: Final = 64

# How long a replica waits for writes that reach an offset ahead of its log. Where the writes have stopped, the next
# question names the log's end.
_AHEAD_S: Final = 1.0

# Three times what a digest takes, and a look at each row's entry in an index, for a node that has other things to do.
_KEY_S: Final = 3e-6
_ENTRY_S: Final = 6e-6

# A bucket shall hold few enough keys to be listed whole (a node lists 50,000 at a time).
_BUCKETS_MIN: Final = 256
_BUCKETS_MAX: Final = 16_384
_BUCKET_KEYS: Final = 10_000
_LISTED_KEYS: Final = 40_000


class _Uneven(Exception):
    """No common offset was found. Never leaves this module."""

    def __init__(self, errors: Mapping[str, DuramenError]) -> None:
        super().__init__("; ".join(f"{node}: {error.message}" for node, error in sorted(errors.items())))


async def verify_partition(
    situation: Situation,
    log: Log,
    membership: Membership,
    partition: PartitionId,
    *,
    timeout: float = 120.0,
    differences_max: int = DIFFERENCES_MAX,
) -> pb.AdminComparison:
    """Compare all replicas that can be read, and the entries of their ordered indexes with their rows. Verdict `equal`,
    `different`, `damaged` (entries are wrong), `single` (nothing to compare it with) or `unverified` (a node did not
    answer, or none is alive). Some 1 µs a key at each replica, all at once, and 1.5 µs for each entry.

    `timeout`: of one question to a node, in seconds.
    """
    table = situation.cluster.table(partition.table)
    readable = table.readable(partition.partition)
    nodes = [node for node in readable if situation.is_alive(node)]
    lost = [node for node in readable if node not in nodes]
    keys = max((situation.replica(partition, node).keys for node in nodes), default=0)
    buckets = _BUCKETS_MIN
    while buckets < _BUCKETS_MAX and keys / buckets > _BUCKET_KEYS:
        buckets *= 2
    indexes = 0 if table.definition is None else len(table.definition.indexes)
    asking = _Asking(log, membership, partition, buckets, timeout, digest_s(keys, indexes))
    compared = pb.AdminComparison(
        table=table.name,
        partition=partition.partition,
        verdict="unverified",
        reason="; ".join(f"{node}: {situation.lost(node)}" for node in lost),
        buckets=buckets,
    )
    if not nodes:
        return compared
    try:
        replies = await asking.at_one_offset(nodes, ())
    except _Uneven as trouble:
        compared.reason = str(trouble)
        return compared
    except DuramenError as error:
        compared.reason = error.message
        return compared
    compared.offset = next(iter(replies.values())).offset
    compared.replicas.extend(
        pb.AdminDigest(node=node, keys=reply.keys, digest=_short(reply), entries=reply.entries, wrong=reply.wrong)
        for node, reply in sorted(replies.items())
    )
    compared.wrong_entries.extend(
        pb.AdminWrongEntry(node=node, index=each.index, key=json_text(each.key), problem=each.problem)
        for node, reply in sorted(replies.items())
        for each in reply.wrong_entries
    )
    differing = _differing(list(replies.values()))
    compared.differing_buckets = len(differing)
    if differing:
        compared.verdict = "different"
        try:
            compared.differences.extend(await _named(asking, replies, differing, differences_max))
        except _Uneven as trouble:
            compared.reason = f"the keys could not be named: {trouble}"
        except DuramenError as error:
            compared.reason = f"the keys could not be named: {error.message}"
    elif compared.wrong_entries:
        compared.verdict = "damaged"
    elif not lost:
        compared.verdict = "equal" if len(nodes) > 1 else "single"
    return compared


def digest_s(keys: int, indexes: int) -> float:
    """How long a node may take to compute an answer about so many keys of a table with so many ordered indexes."""
    return keys * (_KEY_S + _ENTRY_S * indexes)


def _short(reply: DigestReply) -> str:
    """All buckets of a replica in 16 hex digits, for people: equal where everything is."""
    return hashlib.blake2b(b"".join(reply.digests), digest_size=8).hexdigest()


def _differing(replies: Sequence[DigestReply]) -> list[int]:
    columns = zip(*(reply.digests for reply in replies), strict=True)
    return [bucket for bucket, digests in enumerate(columns) if len(set(digests)) > 1]


async def _named(
    asking: _Asking, replies: Mapping[str, DigestReply], differing: Sequence[int], differences_max: int
) -> list[pb.AdminDifference]:
    """The keys in which the replicas differ: listed some buckets at a time, each time at a new common offset."""
    keys = max(reply.keys for reply in replies.values())
    at_once = max(1, int(_LISTED_KEYS / max(1.0, keys / asking.buckets)))
    found: list[pb.AdminDifference] = []
    for start in range(0, len(differing), at_once):
        listed = await asking.at_one_offset(list(replies), differing[start : start + at_once])
        found.extend(_compared(listed))
        if len(found) >= differences_max:
            break
    return found[:differences_max]


def _compared(listed: Mapping[str, DigestReply]) -> list[pb.AdminDifference]:
    held = {
        node: {
            key: (version, value)
            for key, version, value in zip(reply.listed_keys, reply.listed_versions, reply.listed_hashes, strict=True)
        }
        for node, reply in sorted(listed.items())
    }
    offset = next(iter(listed.values())).offset
    found: list[pb.AdminDifference] = []
    for key in sorted({key for keys in held.values() for key in keys}):
        if len({keys.get(key) for keys in held.values()}) == 1:
            continue
        replicas: list[pb.AdminDifferentReplica] = []
        for node, keys in held.items():
            version, value = keys.get(key, (None, None))
            replicas.append(
                pb.AdminDifferentReplica(
                    node=node, present=key in keys, version=version, hash=None if value is None else value.hex()
                )
            )
        found.append(pb.AdminDifference(key=json_text(key), offset=offset, replicas=replicas))
    return found


class _Asking:
    """The questions about one partition."""

    def __init__(
        self,
        log: Log,
        membership: Membership,
        partition: PartitionId,
        buckets: int,
        timeout: float,
        answer_s: float,
    ) -> None:
        """`answer_s`: how long a node may take to compute its answer."""
        self.buckets = buckets
        self._ahead_s = min(timeout, _AHEAD_S + answer_s)
        self._log = log
        self._membership = membership
        self._partition = partition
        self._timeout = timeout

    async def at_one_offset(self, nodes: Sequence[str], listed: Sequence[int]) -> dict[str, DigestReply]:
        """Every replica's digest at one offset. Raises `_Uneven`, and what an answer cannot be got for."""
        ahead = 0
        backoff = Backoff(_PAUSE_FIRST_S, _PAUSE_MAX_S)
        errors: dict[str, DuramenError] = {}
        for _ in range(_TRIES):
            latest = (await self._log.bounds(self._partition)).latest
            patience = self._ahead_s if ahead else self._timeout
            replies, errors = await self._ask(nodes, Offset(latest + ahead), listed, patience)
            if not errors and len({reply.offset for reply in replies.values()}) == 1:
                return replies
            lasting = [e for e in errors.values() if not isinstance(e, (OffsetPassed, DeadlineExceeded, Overloaded))]
            if lasting:
                raise _Uneven(errors)
            if any(isinstance(error, OffsetPassed) for error in errors.values()):
                ahead = max(_AHEAD, ahead * 2)
            elif any(isinstance(error, DeadlineExceeded) for error in errors.values()):
                if not ahead:
                    raise _Uneven(errors)  # it had all the time that there is
                ahead = 0  # the writes that should have reached it have stopped
            else:
                await backoff.pause()  # digests of others are under way
        raise _Uneven(errors)

    async def _ask(
        self, nodes: Sequence[str], offset: Offset, listed: Sequence[int], patience: float
    ) -> tuple[dict[str, DigestReply], dict[str, DuramenError]]:
        request = DigestRequest(
            table_id=table_id_to_bytes(self._partition.table),
            partition=self._partition.partition,
            offset=offset,
            list_buckets=listed,
            buckets=self.buckets,
        )
        answers = await asyncio.gather(*(self._one(node, request, patience) for node in nodes))
        replies = {node: answer for node, answer in zip(nodes, answers, strict=True) if isinstance(answer, DigestReply)}
        errors = {node: answer for node, answer in zip(nodes, answers, strict=True) if isinstance(answer, DuramenError)}
        return replies, errors

    async def _one(self, node: str, request: DigestRequest, patience: float) -> DigestReply | DuramenError:
        try:
            return await self._membership.digest(node, request, timeout=patience)
        except DuramenError as error:
            return error
