"""A batch in the making: the records of several calls for one partition, and who waits for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.tracing.span import Span
from router.data.gather.batch_progress import BatchProgress
from router.data.gather.columns_builder import ColumnsBuilder
from router.data.requests import OutcomesPart, WriteResult

__all__ = ["BatchBuilder", "Callers"]


class Callers(Protocol):
    """The callers that wait for the records of one batch. The gatherer calls `placed` or `judged`, or `fail`; each
    answers only callers that were not answered before.
    """

    def want_verdict(self, *, repeated: bool) -> bool:
        """Does a caller wait for what became of the records? `repeated`: the batch was sent before, so that its place
        need not be the one that counts.
        """
        ...

    @property
    def want_place(self) -> bool:
        """Does a caller wait for stable storage alone?"""
        ...

    def last_deadline(self, now_s: float) -> float | None:
        """The last deadline of a waiting caller, on the loop's clock; None if no caller waits any more. O(calls)."""
        ...

    def noting(self, result: WriteResult) -> Iterable[None]:
        """The batch is large, and on stable storage: note what has to be noted of its records before a caller is
        answered, some of it in each step.
        """
        ...

    def placed(self, result: WriteResult, *, repeated: bool) -> bool:
        """The batch is on stable storage: answer the callers that need no more. Does another caller still wait?"""
        ...

    def judged(self, result: WriteResult) -> None:
        """The batch is on stable storage, and `result` is what became of its records: answer all callers."""
        ...

    def fail(self, error: DuramenError) -> None:
        """Nothing was written, or that is unknown: give each caller an error object of its own."""
        ...


C = TypeVar("C", bound=Callers)


@dataclass(slots=True, eq=False)
class BatchBuilder(Generic[C]):
    """Records that gather, are encoded once, and are sent with the same bytes until their fate is known."""

    place: PartitionId
    columns: ColumnsBuilder
    progress: BatchProgress
    callers: C
    content_bytes: int = 0
    records: int = 0
    calls: int = 0
    data: bytes = b""
    """Its bytes; empty until it is first sent."""
    traced: tuple[Span, ...] = ()
    """Those of its callers that are traced."""

    def question(self, result: WriteResult) -> OutcomesPart:
        """The batch is in the log: the question what became of its records, whose answer its callers now wait for."""
        last = Offset(result.base_offset + self.records - 1)
        part = OutcomesPart(self.place, result.base_offset, result.timestamp_ms, last)
        self.progress.asks(part)
        return part

    def fail(self, error: DuramenError) -> None:
        """End it with `error`, or with `WriteUnknown` where a copy may be in the log."""
        self.callers.fail(self.progress.final(error))
