"""The calls on one table, by every client that is recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from duramen.client.model.results import Change
from duramen.testing.recording.operations import operations_of, unjudged
from duramen.verification.history import Call, text_of
from duramen.verification.recorder import Recorder
from log_tier.model.batch import Columns
from log_tier.model.errors import ConditionFailed, DuramenError, NotANumber, Rejected, WriteUnknown
from log_tier.model.identifiers import NOTHING, Offset, Partition, TableId
from log_tier.model.record import Operation
from router.data.gather.pending_calls import CallOutcome
from router.data.requests import ReadResult, ScanRequest, ScanResult

__all__ = ["TableRecorder"]

_JUDGED: Final = (ConditionFailed, NotANumber)
"""The verdicts that the checker's model knows."""


class TableRecorder:
    """Notes when a call begins, and what it ended with."""

    def __init__(self, table_id: TableId, clock: Callable[[], int]) -> None:
        self.table_id = table_id
        self.recorder = Recorder(clock=clock)
        self.unjudged = ""
        """Why this history cannot be judged; empty: it can."""

    # --- writes

    def write_begins(self, client: int, partition: Partition, records: Columns) -> Call:
        """A write of one partition. Until it ends, it may be in the log."""
        operations = operations_of(records)
        self.unjudged = self.unjudged or unjudged(records)
        kind = "write" if len(operations) == 1 else "batch"
        call = self.recorder.begin(client, kind, operations=operations)
        call.partition, call.outcome = partition, "unknown"
        return call

    def wrote(self, call: Call, outcome: CallOutcome) -> None:
        """It is in the log, and took effect."""
        results = [text_of(each or b"") for each in outcome.results or ()]
        for result, operation in zip(results, call.arguments["operations"], strict=False):
            if result and operation["operation"] != "append" and not result.lstrip("-").isdigit():
                self.unjudged = self.unjudged or f"{operation['key']!r} became the fraction {result}"
        self.recorder.end(call, "ok", offset=int(outcome.offset), results=results)

    def write_failed(self, call: Call, error: BaseException) -> None:
        """It was rejected, failed, or nobody knows."""
        if isinstance(error, Rejected):
            if not isinstance(error, _JUDGED):
                self.unjudged = self.unjudged or f"a write was rejected with {error.code}"
            reply: dict[str, Any] = {"error": error.code}
            if call.kind == "write":  # of several records the offset is that of the one that failed
                reply["offset"] = int(error.fields["offset"])
            self.recorder.end(call, "rejected", **reply)
        elif isinstance(error, DuramenError) and not isinstance(error, WriteUnknown):
            self.recorder.end(call, "failed", error=error.code)
        else:
            self.recorder.end(call, "unknown", error=getattr(error, "code", "cancelled"))

    def stream_wrote(self, call: Call) -> None:
        """A batch of a resumable writer is in the log; where, only the log knows."""
        self.recorder.end(call, "ok")

    # --- reads

    def read_begins(
        self,
        client: int,
        partition: Partition,
        keys: Sequence[bytes],
        *,
        after: Offset | None,
        strong: bool,
        seen: bool,
    ) -> Call:
        """A read of one partition; `seen`: its client's session holds for it, and learns of it."""
        call = self.recorder.begin(
            client,
            "read",
            keys=[text_of(key) for key in keys],
            strong=strong,
            session=seen,
            after={} if after is None or after <= NOTHING else {str(partition): int(after)},
        )
        call.partition = partition
        return call

    def read(self, call: Call, result: ReadResult) -> None:
        """It was answered."""
        entries = [
            [key, None if value is None else text_of(value), version]
            for key, value, version in zip(call.arguments["keys"], result.values, result.versions, strict=True)
        ]
        self.recorder.end(call, "ok", applied=int(result.applied), entries=entries)

    def failed(self, call: Call, error: BaseException) -> None:
        """A read or a scan was not answered."""
        self.recorder.end(call, "failed", error=getattr(error, "code", "cancelled"))

    def scan_begins(self, client: int, request: ScanRequest) -> Call:
        """One page of a scan. It is judged by what it asks for, which is what its client's session has seen."""
        after = {str(partition): int(offset) for partition, offset in request.after.items() if offset > NOTHING}
        return self.recorder.begin(client, "scan", prefix="", after=after, strong=request.strong, session=False)

    def scanned(self, call: Call, request: ScanRequest, page: ScanResult) -> None:
        """The page has come."""
        entries = [
            [text_of(key), text_of(value), version]
            for key, value, version in zip(page.keys, page.values, page.versions, strict=True)
        ]
        first: str = text_of(request.start)
        last: str | None = None
        if request.reverse:
            entries.reverse()
        if page.more:
            if not entries:
                self.recorder.end(call, "failed", error="an empty page")
                return
            if request.reverse:
                first = str(entries[0][0])
            else:
                last = str(entries[-1][0])
        shown = {
            "from": first,
            "to": last,
            "before": None if request.end is None else text_of(request.end),
            "entries": entries,
            "applied": {str(partition): int(offset) for partition, offset in page.applied.items()},
        }
        self.recorder.end(call, "ok", pages=[shown], entries=entries)

    # --- watches

    def watch_begins(self, client: int, positions: Mapping[Partition, Offset]) -> dict[Partition, Call]:
        """A watch: a call for each partition, from the first offset that it will show."""
        calls = {}
        for partition, position in positions.items():
            call = calls[partition] = self.recorder.begin(client, "watch", **{"from": int(position), "session": False})
            call.partition = partition
            self.recorder.end(call, "ok", to=int(position) - 1, changes=[])
        return calls

    def watched(self, call: Call, changes: Sequence[Change], last: int) -> None:
        """Everything up to `last` was shown."""
        call.reply["changes"] += [
            [
                int(change.offset),
                Operation(change.operation).name.lower(),
                text_of(change.key),
                None if change.value is None else text_of(change.value),
            ]
            for change in changes
        ]
        self.recorder.end(call, "ok", to=max(last, call.reply["to"]), changes=call.reply["changes"])
