"""The checker: a history held against the log's truth. Pure; one pass, no search."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from duramen.verification.history import Call, History, LogRecord
from duramen.verification.model import KEYLESS, PartitionModel

__all__ = ["INVARIANTS", "Violation", "check_history"]

INVARIANTS: Final[Mapping[str, str]] = {
    "I1": "an acknowledged write is in the log at its offset, with its bytes",
    "I2": "what is in the log was written by a call, once",
    "I3": "the bytes at an offset never change",
    "I4": "a replica's content at an offset is the log's",
    "I5": "no read is older than its token, its session, or what had been acknowledged before it",
    "I6": "verdicts and results are those of the log's order",
    "I7": "a watch shows every change once, in order; of a compacted log, the last one of each key at least",
}


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    invariant: str
    what: str
    """A sentence with both values."""
    calls: tuple[int, ...]
    """The numbers of the calls that show it."""


def check_history(history: History) -> list[Violation]:
    """Everything in a history that breaks a promise. O(calls log records)."""
    return list(_Checker(history).run())


class _Checker:
    def __init__(self, history: History) -> None:
        self.history = history
        by_partition: dict[int, list[LogRecord]] = defaultdict(list)
        for record in history.log:
            by_partition[record.partition].append(record)
        self.models = [
            PartitionModel(by_partition[number], {url: parts[number] for url, parts in history.builds.items()})
            for number in range(history.partitions)
        ]
        self.acknowledged = _Floor()
        """By partition: what had been acknowledged when."""
        self.sessions: dict[int, _Floor] = defaultdict(_Floor)
        """By client: what it had seen when."""

    def run(self) -> Iterator[Violation]:
        yield from self._check_log()
        for call in self.history.calls:
            self._learn(call)
        checks: Mapping[str, Callable[[Call], Iterator[Violation]]] = {
            "write": self._check_write,
            "batch": self._check_write,
            "read": self._check_read,
            "scan": self._check_scan,
            "watch": self._check_watch,
            "replica": self._check_replica,
            "served": self._check_served,
        }
        for call in self.history.calls:
            yield from checks[call.kind](call)

    # --- the log by itself

    def _check_log(self) -> Iterator[Violation]:
        """I2, and the server's opinion of what is void."""
        signatures: dict[tuple[str, str, str], list[Call]] = defaultdict(list)
        for call in self.history.calls:
            for operation in call.arguments.get("operations", ()):
                signatures[operation["operation"], operation["key"], operation["value"]].append(call)
        effective: dict[tuple[str, str, str], list[int]] = defaultdict(list)
        for number, model in enumerate(self.models):
            for offset, record in model.records.items():
                if record.operation in KEYLESS:
                    continue
                signature = (record.operation, record.key, record.value)
                where = f"{number}@{offset} ({record.operation} {record.key} {record.value[:40]!r})"
                calls = signatures.get(signature, [])
                if all(call.outcome == "failed" for call in calls):
                    said = "nobody wrote" if not calls else "was reported as not written"
                    yield Violation("I2", f"the log holds {where}, which {said}", _numbers(calls))
                verdict = model.verdicts[offset]
                if verdict.effective or verdict.rejected:
                    effective[signature].append(offset)
                if record.void is not None and record.void != (not verdict.effective):
                    yield Violation(
                        "I6",
                        f"{where} is {'void' if record.void else 'in effect'} for the server; the log's order says "
                        f"{verdict.rejected or ('in effect' if verdict.effective else 'a second copy')}",
                        _numbers(calls),
                    )
        for signature, offsets in effective.items():
            calls = signatures.get(signature, [])
            possible = sum(call.outcome != "failed" for call in calls)
            if len(offsets) > possible and possible:
                yield Violation(
                    "I2", f"{signature} took effect at {offsets}, and was written {possible} times", _numbers(calls)
                )

    # --- who knew what, when

    def _learn(self, call: Call) -> None:
        if call.outcome != "ok" and call.outcome != "rejected":
            return
        for partition, offset in _shown(call):
            if call.kind in ("write", "batch"):
                self.acknowledged.rise(partition, call.end_ns, offset)
            if call.arguments.get("session", True):
                self.sessions[call.client].rise(partition, call.end_ns, offset)

    # --- calls

    def _check_write(self, call: Call) -> Iterator[Violation]:
        if call.outcome not in ("ok", "rejected") or "offset" not in call.reply:
            return
        operations = call.arguments["operations"]
        first = int(call.reply["offset"])
        model = self.models[call.partition]
        results = call.reply.get("results") or [""] * len(operations)
        for place, operation in enumerate(operations):
            offset = first + place
            record = model.records.get(offset)
            asked = (operation["operation"], operation["key"], operation["value"])
            found = None if record is None else (record.operation, record.key, record.value)
            if found != asked:
                yield Violation(
                    "I1",
                    f"call {call.number} was acknowledged as {asked} at {call.partition}@{offset}; the log holds "
                    f"{found}",
                    (call.number,),
                )
                return
            verdict = model.verdicts[offset]
            if not (verdict.effective or verdict.rejected or operation["operation"] in KEYLESS):
                yield Violation(
                    "I6",
                    f"call {call.number} was acknowledged as {asked} at {call.partition}@{offset}, which is a second "
                    f"copy; the one that counts is at {verdict.duplicate_of}: what a write returns is the version that "
                    "the next condition needs",
                    (call.number,),
                )
                return
            wrong = bool(verdict.rejected) != (call.outcome == "rejected")
            if wrong or (call.outcome == "rejected" and call.reply["error"] != verdict.rejected):
                yield Violation(
                    "I6",
                    f"call {call.number} at {call.partition}@{offset} was answered "
                    f"{call.reply.get('error') or 'accepted'}; the log's order says {verdict.rejected or 'accepted'}",
                    (call.number,),
                )
                return
            if results[place] and results[place] != verdict.result:
                yield Violation(
                    "I6",
                    f"call {call.number} ({asked}) was answered the result {results[place]}; the log's order gives "
                    f"{verdict.result}",
                    (call.number,),
                )

    def _check_read(self, call: Call) -> Iterator[Violation]:
        if call.outcome != "ok":
            return
        applied = int(call.reply["applied"])
        yield from self._check_age(call, call.partition, applied)
        model = self.models[call.partition]
        yield from self._check_at_offset(call, call.partition, applied)
        for key, value, version in call.reply["entries"]:
            expected = model.at(key, applied)
            if (version, value) != expected:
                yield self._wrong(call, key, (version, value), expected, applied)

    def _wrong(
        self, call: Call, key: str, found: tuple[int, str | None], expected: tuple[int, str | None], applied: int
    ) -> Violation:
        model = self.models[call.partition]
        version, value = found
        # A value that is in the log, at another offset, is a state in the wrong place; another one was never written.
        written = version in model.records or value is None
        return Violation(
            "I4" if written else "I2",
            f"call {call.number} read {key} = {value!r} of version {version} at {call.partition}@{applied}; the log "
            f"says {expected[1]!r} of version {expected[0]}",
            (call.number,),
        )

    def _check_at_offset(self, call: Call, partition: int, applied: int) -> Iterator[Violation]:
        if applied not in self.models[partition].ends:
            yield Violation(
                "I4",
                f"call {call.number} was shown partition {partition} at {applied}, which is inside of a batch, or not "
                f"in the log, which ends at {self.models[partition].latest}",
                (call.number,),
            )

    def _check_age(self, call: Call, partition: int, applied: int) -> Iterator[Violation]:
        floors = [("its token", int(call.arguments.get("after", {}).get(str(partition), -1)))]
        if call.arguments.get("session", True):
            floors.append(("its session", self.sessions[call.client].before(partition, call.start_ns)))
        if call.arguments.get("strong"):
            offset = self.acknowledged.before(partition, call.start_ns)
            floors.append(("what was acknowledged before it began", offset))
        for whose, offset in floors:
            if applied < offset:
                yield Violation(
                    "I5",
                    f"call {call.number} was answered from {partition}@{applied}; {whose} asks for {offset}",
                    (call.number,),
                )

    def _check_scan(self, call: Call) -> Iterator[Violation]:
        if call.outcome != "ok":
            return
        keys = [key for key, _, _ in call.reply["entries"]]
        if keys != sorted(set(keys)):
            yield Violation("I4", f"call {call.number} scanned keys twice or out of order", (call.number,))
        for page in call.reply["pages"]:
            for partition, applied in page["applied"].items():
                yield from self._check_age(call, int(partition), applied)
                yield from self._check_at_offset(call, int(partition), applied)
            expected: dict[str, tuple[int, str | None]] = {}
            for partition, applied in page["applied"].items():
                model = self.models[int(partition)]
                for key in model.keys_at(applied, call.arguments["prefix"]):
                    if (
                        page["from"] <= key
                        and (page["to"] is None or key <= page["to"])
                        and (page.get("before") is None or key < page["before"])
                    ):
                        expected[key] = model.at(key, applied)
            found = {key: (version, value) for key, value, version in page["entries"]}
            for key in sorted(expected.keys() ^ found.keys() | {k for k in found if found[k] != expected.get(k)}):
                yield Violation(
                    "I4",
                    f"call {call.number} scanned {key}: {found.get(key, 'nothing')}; the log says "
                    f"{expected.get(key, 'nothing')} at {page['applied']}",
                    (call.number,),
                )

    def _check_watch(self, call: Call) -> Iterator[Violation]:
        """What one watcher saw of one partition, from `from` (the first offset wanted) to `to` (the last one seen)."""
        model = self.models[call.partition]
        shown = call.reply["changes"]
        offsets = [offset for offset, *_ in shown]
        if any(a >= b for a, b in pairwise(offsets)):
            yield Violation(
                "I7", f"watch {call.number} of partition {call.partition} saw {_disorder(offsets)}", (call.number,)
            )
        for offset, operation, key, value in shown:
            record = model.records.get(offset)
            if (
                record is None
                or (record.operation, record.key) != (operation, key)
                or (operation != "delete" and record.value != value)
            ):
                yield Violation(
                    "I3",
                    f"watch {call.number} saw {operation} {key} {value!r} at {call.partition}@{offset}; the log holds "
                    f"{record}",
                    (call.number,),
                )
        expected = [
            offset
            for offset, record in model.records.items()
            if call.arguments["from"] <= offset <= call.reply["to"]
            and model.verdicts[offset].effective
            and record.operation != "noop"
        ]
        missing, strange = sorted(set(expected) - set(offsets)), sorted(set(offsets) - set(expected))
        if call.arguments.get("compacted"):
            missing = _not_replaced(model, missing, until=call.reply["to"])
        if missing or strange:
            yield Violation(
                "I7",
                f"watch {call.number} of partition {call.partition} from {call.arguments['from']} to "
                f"{call.reply['to']} missed {missing[:5]} and showed {strange[:5]} that changed nothing",
                (call.number,),
            )

    def _check_replica(self, call: Call) -> Iterator[Violation]:
        """A replica's whole content."""
        if call.outcome != "ok":
            return
        applied = int(call.reply["applied"])
        model = self.models[call.partition]
        found = {key: (version, value) for key, value, version in call.reply["entries"]}
        expected = {key: model.at(key, applied) for key in model.keys_at(applied, "")}
        for key in sorted(k for k in expected.keys() | found.keys() if found.get(k) != expected.get(k))[:5]:
            yield Violation(
                "I4",
                f"the replica of partition {call.partition} on {call.arguments['node']} holds {key} = "
                f"{found.get(key, 'nothing')} at {applied}; the log says {expected.get(key, 'nothing')}",
                (call.number,),
            )

    def _check_served(self, call: Call) -> Iterator[Violation]:
        """The log as the servers gave it, where it was read by itself too."""
        for difference in call.reply["differences"]:
            yield Violation("I3", difference, (call.number,))


class _Floor:
    """How far something had come, over time: the highest offset known before a given time, by partition."""

    def __init__(self) -> None:
        self._events: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._ready: dict[int, tuple[list[int], list[int]]] = {}

    def rise(self, partition: int, time_ns: int, offset: int) -> None:
        self._events[partition].append((time_ns, offset))

    def before(self, partition: int, time_ns: int) -> int:
        """The highest offset that was known before `time_ns`; -1 for none. O(log n)."""
        ready = self._ready.get(partition)
        if ready is None:
            times: list[int] = []
            highest: list[int] = []
            for when, offset in sorted(self._events[partition]):
                times.append(when)
                highest.append(max(offset, highest[-1] if highest else -1))
            ready = self._ready[partition] = (times, highest)
        times, highest = ready
        place = bisect_left(times, time_ns)
        return highest[place - 1] if place else -1


def _shown(call: Call) -> Iterator[tuple[int, int]]:
    """The offsets that a call's reply names, by partition."""
    if call.kind in ("write", "batch") and "offset" in call.reply:
        yield call.partition, int(call.reply["offset"]) + len(call.arguments["operations"]) - 1
    elif call.kind == "read":
        yield call.partition, int(call.reply["applied"])
    elif call.kind == "scan":
        for page in call.reply["pages"]:
            for partition, applied in page["applied"].items():
                yield int(partition), int(applied)


def _not_replaced(model: PartitionModel, offsets: list[int], *, until: int) -> list[int]:
    """Those records that no compaction may drop before a watch reads up to `until`: there is no later put or delete of
    their key that takes effect whatever was there.
    """
    last: dict[str, int] = {}
    for offset, record in model.records.items():
        if offset <= until and record.operation in ("put", "delete") and not record.condition:
            last[record.key] = offset if model.verdicts[offset].effective else last.get(record.key, -1)
    return [offset for offset in offsets if last.get(model.records[offset].key, -1) <= offset]


def _numbers(calls: list[Call]) -> tuple[int, ...]:
    return tuple(call.number for call in calls[:10])


def _disorder(offsets: list[int]) -> str:
    for before, after in pairwise(offsets):
        if before >= after:
            return f"offset {after} after {before}"
    return "no disorder"
