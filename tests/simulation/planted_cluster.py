"""Bugs to plant between the processes of a cluster: in the log's client, reads, watches, and the fold of repeats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from duramen.client import watch
from duramen.client.model.session import Session
from log_tier.model.batch_header import BatchHeader
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.remote import remote_log
from router.data import fresh_replicas
from router.data.gather import batch_progress
from router.data.local_data import LocalData
from router.data.outcomes import judged
from router.data.requests import OutcomesPart, ReadPart
from router.remote import messages
from router.routing import watches
from router.routing.hedging import HedgedQuestions
from serving_tier.fold import fold
from serving_tier.fold.producers import ProducerState
from serving_tier.replica.replica import Replica
from simulation.planted import Patches

__all__ = ["PLANTED_IN_CLUSTER"]


def _floor_is_not_on_the_wire() -> Patches:
    request = messages.read_request

    def forgetful(parts: Sequence[ReadPart], **how: Any) -> Any:
        return request([part._replace(after=NOTHING) for part in parts], **how)

    return [(messages, "read_request", forgetful)]


def _repeated_batch_counts_twice() -> Patches:
    def judge(header: BatchHeader, skip: int, producers: Any, effects: Any) -> int:
        state = producers.get(header.producer_id)
        offset, span = Offset(header.base_offset + skip), header.span - skip
        producers.set(header.producer_id, ProducerState(header.sequence + skip, offset, span), before=state)
        return 0

    return [(fold, "_judge_producer", judge)]


def _only_the_last_batch_is_known() -> Patches:
    """A retry is of the last batch. What comes later than that is a copy that the network has kept."""
    inner = fold._judge_producer

    def judge(header: BatchHeader, skip: int, producers: Any, effects: Any) -> int:
        state = producers.get(header.producer_id)
        if state is not None and header.sequence + skip < state.base_sequence:
            producers.changed[header.producer_id] = None
        return inner(header, skip, producers, effects)

    return [(fold, "_judge_producer", judge)]


def _verdict_before_its_batch_is_applied() -> Patches:
    async def judge(self: LocalData, part: OutcomesPart, ends_s: float, acknowledged: bool) -> Any:
        try:
            return judged(part, self.node.replica(part.partition).index.outcomes(part.base_offset, part.after))
        except DuramenError as error:
            return error.as_value()

    return [(LocalData, "_judge", judge)]


def _session_forgets() -> Patches:
    return [(Session, "saw", lambda self, table, partition, offset: None)]


def _reader_skips_after_a_reset() -> Patches:
    following = remote_log._next_offset
    return [(remote_log, "_next_offset", lambda data: Offset(following(data) + 1))]


def _strong_read_does_not_ask() -> Patches:
    def decide(replica: Replica, needed: Offset, strong: bool, lag_max_ms: int) -> Any:
        return decided(replica, needed, False, lag_max_ms)

    decided = fresh_replicas._decide
    return [(fresh_replicas, "_decide", decide)]


def _lost_reply_is_a_refusal() -> Patches:
    return [
        (remote_log, "may_have_happened", lambda error: False),
        (batch_progress, "may_be_written", lambda error: False),
    ]


def _watch_resumes_at_its_beginning() -> Patches:
    return [(module, "offsets_in", lambda batches: (Offset(0), NOTHING)) for module in (watches, watch)]


def _second_question_without_floor() -> Patches:
    ask = HedgedQuestions._ask_second

    async def forgetful(self: HedgedQuestions, member: Any, parts: Sequence[Any], *how: Any) -> Any:
        asked = [part._replace(after=NOTHING) if isinstance(part, ReadPart) else part for part in parts]
        return await ask(self, member, asked, *how)

    return [(HedgedQuestions, "_ask_second", forgetful)]


PLANTED_IN_CLUSTER: Final[dict[str, Callable[[], Patches]]] = {
    "what a read must show is not on the wire": _floor_is_not_on_the_wire,
    "a repeated batch takes effect twice": _repeated_batch_counts_twice,
    "a late copy of a batch that is not its producer's last one counts": _only_the_last_batch_is_known,
    "a verdict is given before its batch is applied": _verdict_before_its_batch_is_applied,
    "a session forgets what it has seen at another node": _session_forgets,
    "a follower that was reset skips a record": _reader_skips_after_a_reset,
    "a strong read does not ask the log": _strong_read_does_not_ask,
    "a write whose reply is lost is reported as refused": _lost_reply_is_a_refusal,
    "a watch resumes at its beginning": _watch_resumes_at_its_beginning,
    "a late read is asked again without what it must show": _second_question_without_floor,
}
