"""Traces: what the nodes of a cluster of the simulation answered, as steps of the specification ReadYourWrites.

While a run is recorded, three public methods also write down their calls: `LocalData.read` (what readers asked of a
node, and from which state it answered), `LmdbIndex.fold_in` (what a replica folds) and the constructor of `Replica`
(with which index and which floor one begins). Nothing else is slower, and without a recording nothing is.

The events of one partition become steps afterwards. A batch is a write of one record, because its records are folded
together; offsets are counted in batches. Every record of the log gives a token to a session of its own, and every
reader is a session that got the token which its read carried. The log appends a batch as late as it can, before the
first event that shows it. An answer was given at the last time at which its replica had applied what it shows; a
floor is the log's end of when it was asked for, not earlier than the last event of its node.

A replica that begins with another state than its node had before got it from a snapshot: of whichever node was there
first, since equal offsets have equal content. Partitions whose content was swapped, and runs whose log was put back to
an older copy, are left out.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from simulation.planted import Patches, plant
from simulation.run import run_seed

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import ANYTHING, NOTHING, PartitionId
from router.data.local_data import LocalData
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica.replica import Replica
from spec.trace import Step, set_of, write_trace_data, write_trace_model

__all__ = ["ReadRecording", "recorded_reads", "steps_of_reads", "tla_of_reads"]

# TLC reads the trace as one expression; a few hundred steps of it take seconds.
STEPS_MAX: Final = 300

NOTHING_YET: Final = 0
"""The place of what has applied no batch."""


class Began(NamedTuple):
    """A replica begins at a node."""

    node: str
    applied: int
    floor: int


class FoldedIn(NamedTuple):
    """A replica folded batches, by their last offsets."""

    node: str
    before: int
    ends: tuple[int, ...]


class AnswerGiven(NamedTuple):
    """A node answered a read that needed `after`."""

    node: str
    after: int
    applied: int


Happened = Began | FoldedIn | AnswerGiven


@dataclass
class ReadRecording:
    """The events of a run, by partition, in their order."""

    events: defaultdict[PartitionId, list[Happened]] = field(default_factory=lambda: defaultdict(list))
    left_out: set[PartitionId] = field(default_factory=set)
    """Partitions of which something happened that these traces do not tell."""
    _places: dict[int, tuple[str, PartitionId]] = field(default_factory=dict)
    """Where each index is, by its identity; one that is gone may have given it to another one, which begins anew."""

    def patches(self) -> Patches:
        """Of the three methods."""
        read, fold_in, begin = LocalData.read, LmdbIndex.fold_in, Replica.__init__

        async def recorded_read(plane: LocalData, parts: Sequence[Any], **options: Any) -> Any:
            results = await read(plane, parts, **options)
            for part, result in zip(parts, results, strict=True):
                is_plain = not part.strong and not part.lag_max_ms and part.past is None and part.after != ANYTHING
                if is_plain and not isinstance(result, DuramenError):
                    self._answered(plane, part.partition, part.after, result.applied)
            return results

        def recorded_fold(index: LmdbIndex, batches: Sequence[Any], **options: Any) -> Any:
            before = index.applied
            effects = fold_in(index, batches, **options)
            ends = tuple(each.header.last_offset for each in batches if each.header.last_offset > before)
            if ends and id(index) in self._places:
                node, partition = self._places[id(index)]
                self.events[partition].append(FoldedIn(node, before, ends))
                if effects.live is not None:
                    self.left_out.add(partition)
            return effects

        def recorded_begin(replica: Replica, topic: Any, folder: Any, index: LmdbIndex, **options: Any) -> None:
            begin(replica, topic, folder, index, **options)
            # NODE/index/TABLE/PARTITION; what a node builds anew has another folder, and is another node here.
            node = folder.path.parts[-4] + folder.path.suffix
            self._places[id(index)] = node, folder.partition
            if index.version != 1 or replica.lost:
                self.left_out.add(folder.partition)
            self.events[folder.partition].append(Began(node, index.applied, replica.floor))

        return [
            (LocalData, "read", recorded_read),
            (LmdbIndex, "fold_in", recorded_fold),
            (Replica, "__init__", recorded_begin),
        ]

    def _answered(self, plane: LocalData, partition: PartitionId, after: int, applied: int) -> None:
        try:
            index = plane.node.replica(partition).index
        except DuramenError:
            return  # it has left this node since
        if id(index) not in self._places:
            self.left_out.add(partition)  # its content was swapped
            return
        node, _ = self._places[id(index)]
        self.events[partition].append(AnswerGiven(node, after, applied))


def recorded_reads(seed: int, *, may_break: bool = False) -> ReadRecording:
    """Run a seed of the world `cluster`, and record it. `may_break`: a bug is planted."""
    recording = ReadRecording()
    with plant(recording.patches):
        outcome = run_seed(seed, "cluster")
    assert may_break or not outcome.broken, outcome.words
    return recording


def steps_of_reads(events: Sequence[Happened]) -> list[Step]:
    """The steps of one partition; the first `STEPS_MAX` of them."""
    steps = _ReadSteps(events)
    for event in events:
        steps.take(event)
    return steps.in_order()[:STEPS_MAX]


class _When(NamedTuple):
    """When a step is taken: after all of the same turn that were made before it."""

    turn: int
    made: int


@dataclass
class _NodeLife:
    applied: int
    states: list[tuple[_When, int]]
    """What it had applied, from when on."""

    @property
    def last(self) -> _When:
        return self.states[-1][0]


class _ReadSteps:
    """Makes steps of events. Offsets are places here: the number of a batch, from 1 on."""

    def __init__(self, events: Sequence[Happened]) -> None:
        self._ends = sorted({end for each in events if isinstance(each, FoldedIn) for end in each.ends})
        self._steps: list[tuple[_When, Step]] = []
        self._appended: list[_When] = []
        self._nodes: dict[str, _NodeLife] = {}
        self._copied: dict[int, _When] = {}
        self._readers = 0

    def in_order(self) -> list[Step]:
        return [step for _, step in sorted(self._steps, key=lambda each: each[0])]

    def take(self, event: Happened) -> None:
        if isinstance(event, Began):
            self._began(event.node, self._place(event.applied), self._place(event.floor))
        elif isinstance(event, FoldedIn):
            self._folded(event)
        else:
            self._answered(event)

    def _place(self, offset: int) -> int:
        """How many batches end at an offset or before it."""
        return bisect_right(self._ends, offset)

    def _step(self, turn: int | None = None, /, **step: str | int) -> _When:
        """Note a step; `turn`: that of another one, after which it comes. None: it is the next."""
        when = _When(len(self._steps) if turn is None else turn, len(self._steps))
        self._steps.append((when, dict(step)))
        return when

    def _append_up_to(self, place: int) -> None:
        while len(self._appended) < place:
            offset = len(self._appended) + 1
            self._appended.append(self._step(name="append", session=_writer(offset), offset=offset))

    def _began(self, node: str, applied: int, floor: int) -> None:
        life = self._nodes.get(node)
        since = _When(-1, -1) if life is None else life.last
        is_first = not self._nodes
        if is_first and applied == floor == NOTHING_YET:
            self._nodes[node] = _NodeLife(applied, [(since, applied)])
            return
        self._append_up_to(floor)
        # The log's end was asked for some time before, when nobody may have shown what came after it.
        asked = max(since, self._appended[floor - 1]) if floor else since
        is_known = applied == (NOTHING_YET if is_first else None if life is None else life.applied)
        if applied and not is_known:
            asked = max(asked, self._copy(applied))
        turn = max(asked.turn, 0)
        place: dict[str, str | int] = {"node": node, "offset": applied, "floor": floor}
        if is_known:
            when = self._step(turn, name="open", **place)
        else:
            if life is not None or is_first:
                self._step(turn, name="discard", node=node)
            else:
                self._step(turn, name="_begin_move", node=node)
            when = self._step(turn, name="bootstrap", **place)
        states = [] if life is None else life.states
        self._nodes[node] = _NodeLife(applied, [*states, (when, applied)])

    def _copy(self, applied: int) -> _When:
        """Have a snapshot of a state, taken when the first node had it; when that was."""
        if applied in self._copied:
            return self._copied[applied]
        had = [(when, name) for name, life in self._nodes.items() for when, at in life.states if at == applied]
        assert had, f"a replica begins with {applied}, which no replica had"
        when, name = min(had)
        self._copied[applied] = self._step(when.turn, name="take_snapshot", node=name, offset=applied)
        return self._copied[applied]

    def _folded(self, event: FoldedIn) -> None:
        life = self._nodes[event.node]
        assert self._place(event.before) == life.applied, f"{event} of a replica at {life.applied}"
        for place in range(life.applied + 1, self._place(event.ends[-1]) + 1):
            self._append_up_to(place)
            life.states.append((self._step(name="apply", node=event.node, offset=place), place))
            life.applied = place

    def _answered(self, event: AnswerGiven) -> None:
        place = self._place(event.applied)
        when = next((when for when, at in reversed(self._nodes[event.node].states) if at == place), None)
        assert when is not None, f"{event} of a replica that never had {place}"
        self._readers += 1
        reader, turn = f"r{self._readers}", max(when.turn, 0)
        after = bisect_left(self._ends, event.after) + 1 if event.after > NOTHING else NOTHING_YET
        if after:
            self._step(turn, name="merge", session=reader, other=_writer(after))
        self._step(turn, name="may_answer", session=reader, node=event.node, offset=place)


_FIRST: Final = "the first"
"""A node of which these steps say nothing."""


def _writer(place: int) -> str:
    return f"w{place}"


def tla_of_reads(steps: Sequence[Step], folder: Path) -> None:
    """Write the module `TraceData`, and the model that it is checked with, into a folder."""
    nodes = sorted({str(step["node"]) for step in steps if "node" in step})
    sessions = sorted({str(step[word]) for step in steps for word in ("session", "other") if word in step})
    joined = {step["node"] for step in steps if step["name"] == "_begin_move"}
    nodes.append(_FIRST)
    first = next(node for node in nodes if node not in joined)
    write_trace_data(steps, folder, f'First == "{first}"')
    constants: dict[str, str | int] = {
        "Nodes": set_of(nodes),
        "Sessions": set_of(sessions),
        "Versions": "{1}",
        "WritesMax": len(steps),
        "BarriersMax": 0,
        "SnapshotsMax": len(steps),
        "ChangesMax": len(steps),
        "Bug": '"none"',
    }
    write_trace_model(constants, "NoneOlder NoneLess Exact Alike", folder)
