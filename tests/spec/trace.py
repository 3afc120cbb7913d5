"""Traces: what a database of the simulation did, as steps of the specification ExactlyOnce.

While a run is recorded, three public methods also write down their calls: `LocalData.write` and `LocalData.outcomes`
(what clients send, and how they are answered), and `LmdbIndex.fold_in` (what the replica folds, and which batches it
voids). Nothing else is slower, and without a recording nothing is.

The events of one partition become steps afterwards, in their order. A batch is a write of one record, because its
records are folded together; offsets are counted in batches. The log appends a batch as late as it can, before the first
event that shows it. A producer that sends its next batch without an answer has given the one before up.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from simulation.planted import Patches, plant
from simulation.run import run_seed

from log_tier.model.batch_header import read_header
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, PartitionId
from router.data.local_data import LocalData
from router.data.requests import WriteResult
from serving_tier.fold.verdicts import Verdict
from serving_tier.index.lmdb.lmdb_index import LmdbIndex

__all__ = [
    "Step",
    "lines_of",
    "module_of",
    "recorded",
    "set_of",
    "steps_of",
    "write_trace_data",
    "write_trace_model",
]

Step = dict[str, str | int | bool]
"""The name of an action, and what the code says about it."""

# TLC reads the trace as one expression; a few hundred steps of it take seconds.
STEPS_MAX: Final = 300


class CopySent(NamedTuple):
    """A copy of a batch was handed to the data plane."""

    producer: int
    sequence: int


class Replied(NamedTuple):
    """The place of a batch, or what became of it, was reported."""

    producer: int
    sequence: int
    offset: int
    original: int
    """The offset of the copy that counts; `NOTHING`: of this one."""


class Folded(NamedTuple):
    """The replica folded batches: offset, producer, sequence, void."""

    before: int
    batches: tuple[tuple[int, int, int, bool], ...]


@dataclass
class Recording:
    """The events of a run, by partition, in their order."""

    events: defaultdict[PartitionId, list[CopySent | Replied | Folded]] = field(
        default_factory=lambda: defaultdict(list)
    )
    offsets: dict[tuple[PartitionId, int], tuple[int, int]] = field(default_factory=dict)
    """Which batch a place was given to."""

    def patches(self) -> Patches:
        """Of the three methods."""
        write, outcomes, fold_in = LocalData.write, LocalData.outcomes, LmdbIndex.fold_in

        async def recorded_write(plane: LocalData, parts: Sequence[Any], **options: Any) -> Any:
            headers = [read_header(part.batch) for part in parts]
            for part, header in zip(parts, headers, strict=True):
                self.events[part.partition].append(CopySent(header.producer_id, header.sequence))
            results = await write(plane, parts, **options)
            for part, header, result in zip(parts, headers, results, strict=True):
                self._replied(part.partition, header.producer_id, header.sequence, result)
            return results

        async def recorded_outcomes(plane: LocalData, parts: Sequence[Any], **options: Any) -> Any:
            results = await outcomes(plane, parts, **options)
            for part, result in zip(parts, results, strict=True):
                batch = self.offsets.get((part.partition, part.base_offset))
                if batch is not None:
                    self._replied(part.partition, *batch, result)
            return results

        def recorded_fold(index: LmdbIndex, batches: Sequence[Any], **options: Any) -> Any:
            before = index.applied
            effects = fold_in(index, batches, **options)
            void = {each.offset for each in effects.judgements if each.verdict is Verdict.DUPLICATE}
            headers = [batch.header for batch in batches if batch.header.last_offset > before]
            for header in headers:
                self.offsets[index._partition, header.base_offset] = header.producer_id, header.sequence
            self.events[index._partition].append(
                Folded(
                    before,
                    tuple((h.base_offset, h.producer_id, h.sequence, h.base_offset in void) for h in headers),
                )
            )
            return effects

        return [
            (LocalData, "write", recorded_write),
            (LocalData, "outcomes", recorded_outcomes),
            (LmdbIndex, "fold_in", recorded_fold),
        ]

    def _replied(
        self, partition: PartitionId, producer: int, sequence: int, result: WriteResult | DuramenError
    ) -> None:
        if isinstance(result, WriteResult):
            self.offsets[partition, result.base_offset] = producer, sequence
            if not result.pending:
                original = max(
                    (each.original - each.record for each in result.outcomes if each.original > NOTHING),
                    default=NOTHING,
                )
                self.events[partition].append(Replied(producer, sequence, result.base_offset, original))


def recorded(seed: int, *, may_break: bool = False) -> Recording:
    """Run a seed of the world `database`, and record it. `may_break`: a bug is planted."""
    recording = Recording()
    with plant(recording.patches):
        outcome = run_seed(seed, "database")
    assert may_break or not outcome.broken, outcome.words
    return recording


def steps_of(events: Sequence[CopySent | Replied | Folded]) -> list[Step]:
    """The steps of one partition; the first `STEPS_MAX` of them."""
    return list(_Steps(events))[:STEPS_MAX]


class _Steps:
    def __init__(self, events: Sequence[CopySent | Replied | Folded]) -> None:
        self._events = events
        found = {(o, p, s) for each in events if isinstance(each, Folded) for o, p, s, _ in each.batches}
        found |= {(each.offset, each.producer, each.sequence) for each in events if isinstance(each, Replied)}
        self._log = sorted(found)
        self._places = {offset: number for number, (offset, _, _) in enumerate(self._log, 1)}
        self._writes: defaultdict[int, list[int]] = defaultdict(list)
        """By producer: the sequences of its batches, in their order."""
        self._tries: defaultdict[int, int] = defaultdict(int)
        self._busy: set[int] = set()
        self._appended = 0
        self._applied = 0

    def __iter__(self) -> Iterator[Step]:
        for at, event in enumerate(self._events):
            if isinstance(event, CopySent):
                yield from self._sent(event)
            elif isinstance(event, Replied):
                later = self._events[at + 1 :]
                # A reply that its client did not get: the same bytes are sent again.
                if not any(isinstance(each, CopySent) and each == (event.producer, event.sequence) for each in later):
                    yield from self._replied(event)
            else:
                yield from self._folded(event)

    def _sent(self, event: CopySent) -> Iterator[Step]:
        writes, name = self._writes[event.producer], f"{event.producer:x}"
        if event.sequence in writes:
            self._tries[event.producer] += 1
            yield {"name": "_try", "producer": name, "write": writes.index(event.sequence) + 1}
            return
        if event.producer in self._busy:
            yield {"name": "_give_up", "producer": name}
        writes.append(event.sequence)
        self._tries[event.producer] = 1
        self._busy.add(event.producer)
        yield {"name": "_encoded", "producer": name, "write": len(writes)}

    def _append_up_to(self, place: int) -> Iterator[Step]:
        while self._appended < place:
            _, producer, sequence = self._log[self._appended]
            self._appended += 1
            write = self._writes[producer].index(sequence) + 1
            yield {"name": "append", "producer": f"{producer:x}", "write": write, "offset": self._appended}

    def _replied(self, event: Replied) -> Iterator[Step]:
        place = self._places[event.offset]
        yield from self._append_up_to(place)
        if event.producer not in self._busy or self._writes[event.producer][-1] != event.sequence:
            return  # it was given up before, and nobody waits for it
        self._busy.discard(event.producer)
        step: Step = {"producer": f"{event.producer:x}", "offset": place}
        if self._tries[event.producer] == 1:
            yield {"name": "answered", **step}
        else:
            counts = place if event.original == NOTHING else self._places[event.original]
            yield {"name": "outcomes_between", **step, "original": counts}

    def _folded(self, event: Folded) -> Iterator[Step]:
        if event.before == NOTHING and self._applied:
            self._applied = 0
            yield {"name": "discard"}
        for offset, _, _, is_void in event.batches:
            place = self._applied = self._places[offset]
            yield from self._append_up_to(place)
            yield {"name": "fold_in", "offset": place, "void": is_void}


def lines_of(steps: Sequence[Step]) -> str:
    """As JSON lines."""
    return "".join(json.dumps(step) + "\n" for step in steps)


def module_of(lines: str, folder: Path) -> None:
    """Write the module `TraceData`, and the model that it is checked with, into a folder."""
    steps: list[Step] = [json.loads(line) for line in lines.splitlines()]
    producers = sorted({str(step["producer"]) for step in steps if "producer" in step})
    writes = max((int(step["write"]) for step in steps if "write" in step), default=1)
    copies = sum(step["name"] in ("_encoded", "_try") for step in steps)
    write_trace_data(steps, folder)
    constants: dict[str, str | int] = {
        "Producers": set_of(producers),
        "Replicas": '{"r"}',
        "Keys": '{"k"}',
        "Operations": '{"put"}',
        "WritesMax": writes,
        "CopiesMax": 9,
        "SendsMax": copies,
        "SnapshotsMax": 0,
        "LossesMax": copies,
        "UpkeepMax": 0,
        "Window": len(producers),
        "Bug": '"none"',
    }
    write_trace_model(constants, "OneEffect Answered Served Equal", folder)


def write_trace_data(steps: Sequence[Step], folder: Path, definition: str = "") -> None:
    """Write the steps as the module `TraceData` into a folder. `definition`: one more of the module."""
    events = ",\n  ".join(
        f"[{', '.join(f'{name} |-> {_text(value)}' for name, value in step.items())}]" for step in steps
    )
    head, tail = "-" * 30 + " MODULE TraceData " + "-" * 30, "=" * 78
    (folder / "TraceData.tla").write_text(
        f"{head}\nTrace == <<\n  {events}\n>>\n{definition}\n{tail}\n", encoding="utf-8"
    )


def write_trace_model(constants: Mapping[str, str | int], invariants: str, folder: Path) -> None:
    """Write the model of a trace into a folder; `Unfinished` is violated where all of its steps were possible."""
    text = "\n".join(f"    {name} = {value}" for name, value in constants.items())
    model = f"SPECIFICATION TraceSpec\nCONSTANTS\n{text}\nINVARIANTS {invariants} Unfinished\n"
    (folder / "model.cfg").write_text(model, encoding="utf-8")


def set_of(names: Sequence[str]) -> str:
    """Of strings, in TLA+."""
    return "{" + ", ".join(f'"{name}"' for name in names) + "}"


def _text(value: str | int | bool) -> str:
    return str(value).upper() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
