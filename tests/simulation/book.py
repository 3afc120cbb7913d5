"""What was written, what was said about it, and what a log holds: the checker of the log."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from duramen.verification.checker import INVARIANTS
from log_tier.model.batch import Columns, decode_batch, encode_batch
from log_tier.model.batch_header import read_header
from log_tier.model.identifiers import Offset
from simulation.plan import Call

__all__ = ["PROPERTIES", "Book", "Broken", "SentBatch", "newest_date", "records_in"]

PROPERTIES = {
    "acknowledged": "what was acknowledged is in the log at its offset, with its bytes",
    "unwritten": "nothing is in the log that nobody wrote, and nothing more often than it was sent",
    "refused": "what was refused is not in the log",
    "shown": "what a reader was shown stays at its offset",
    "whole": "the records of a batch are there together, in their order",
    "dated": "the timestamps of a partition never fall, whatever the clock does",
    "dense": "offsets have no holes, but where a compaction made them",
    "I8": "damage is detected, and repaired from a copy or refused with its place; it is never served, and no "
    "acknowledged record is cut silently",
    "damage": "no recovery, and no task of a job, finds damage on a disk that damages nothing",
    "closed": "after a clean close the next start finds nothing to recover",
    "typed": "every failure is an error of Duramen's",
    "one after the other": "commands on a key take effect one after the other, whatever round they share",
    "session": "a connection sees what it wrote",
    "atomic": "what a transaction writes is seen together",
    "notified": "who listens hears of every write that is acknowledged after the confirmation, once",
    "retrieved": "no failure is lost: somebody retrieves what a task or a future ends with",
    "restored": "a table that was restored to a point in time holds what its source held at that offset",
    "equal": "replicas that have applied the same offset hold the same",
    "tally": "what each version of each replica, each open watch and each session counted is what the log holds",
    "asked snapshots": "a snapshot that is asked for holds what clients were acknowledged before the request",
    "revoked": "a server serves nothing without a grant, and 100 ms after a revocation nobody does where nothing is at "
    "fault",
    "expired": "a token proves nothing from its end on, by the clock of the server, nor does a stream outlive it",
    "healing": "one healing at a time, and no partition has fewer members than its table wants",
    "relief": "one relief at a time, none while others move replicas or when it is off, and it fills or heats nobody",
    "relieved": "a node that stays full or hot is relieved within a bounded time, where others have room",
    "healed": "a node that stays lost is replaced: all copies are there within a bounded time",
    "granted": "no call is refused for which there is a grant",
    "guessed": "who guesses a password has to wait longer after each failure",
    "metered": "no server lets through more of a user or table than its quota there gives, of all protocols together",
    "unmetered": "nobody is refused for the quota of another user or table, nor for one that is gone",
    "waited": "who was refused by a quota, and waited as long as it was told, is let through",
    "untouched": "what a quota has refused has no effect, and whoever sent it knows that",
    "bounded": "no more watches or connections are open at a server than a quota there gives",
    "given back": "a quota refuses a watch or a connection only while as many are open as it gives",
    "audited": "the audit of a server has each call that it refused, or let in on an audited table, once; where it was "
    "killed, it may lack some",
    "kept": "what a server has seen is in the table of histories, unchanged, and known when it is started again; "
    "nobody else writes there",
    "fitting": "a table of rows takes what fits its definition, and nothing else, at every server alike",
    "indexed": "an entry of an ordered index is there if and only if its row is, at every read",
    "past": "a table that keeps a history has, at each offset that is kept, what a fold of its log has; no change "
    "is without its past entry",
    "patched": "an update of fields takes effect once, on the row that is there in the order of the log",
    "unique": "of each value of a unique index one row at most has it, at every server; what was acknowledged is there",
    "level": "everything is alive, and every replica has applied the log, soon after the last fault",
    "ends": "every call ends, and the log takes writes again when the faults are over",
}

Record = tuple[bytes, bytes]
"""Key and value; no two sent records have the same value."""
Place = tuple[str, int, int]
"""Topic, partition, offset."""


class Broken(AssertionError):
    """A property does not hold."""

    def __init__(self, name: str, what: str) -> None:
        promise = PROPERTIES.get(name) or INVARIANTS[name]
        super().__init__(f"{name}: {promise}, but {what}")
        self.name = name


@dataclass
class SentBatch:
    """One batch, and what is known of it."""

    topic: str
    partition: int
    records: tuple[Record, ...]
    data: bytes
    copies: int = 0
    """How often it may be in the log."""
    offsets: set[int] = field(default_factory=set)
    """Where it was acknowledged."""


def records_in(stored: Iterable[bytes]) -> dict[int, Record]:
    """Offset → record."""
    found: dict[int, Record] = {}
    for data in stored:
        batch = decode_batch(data)
        found.update(zip(batch.offsets(), zip(batch.columns.keys, batch.columns.values, strict=True), strict=True))
    return found


def newest_date(stored: Iterable[bytes], newest_ms: int) -> int:
    """The timestamp of the last of these batches, which come behind one of `newest_ms`. Raises `Broken`."""
    for data in stored:
        header = read_header(data)
        if header.timestamp_ms < newest_ms:
            raise Broken("dated", f"the batch at {header.base_offset} is of {header.timestamp_ms}, behind {newest_ms}")
        newest_ms = header.timestamp_ms
    return newest_ms


class Book:
    """Everything that was sent, answered and shown, over all lives of a log."""

    def __init__(self) -> None:
        self.sent: list[SentBatch] = []
        self.shown: dict[Place, Record] = {}
        self.compacted: dict[tuple[str, int], int] = defaultdict(int)
        """Below which offset records may have gone because later ones replaced them."""

    def batch_of(self, call: Call, topic: str, partition: int) -> SentBatch:
        """What a call of the plan sends to a partition."""
        records: tuple[Record, ...] = tuple(
            (
                b"hot%d" % (at % 3) if call.hot else b"key%d.%d" % (call.number, at),
                b"%d.%d.%d " % (call.number, partition, at) + b"x" * call.size,
            )
            for at in range(call.records)
        )
        data = encode_batch(
            Columns([key for key, _ in records], [value for _, value in records]), producer_id=0, sequence=0
        )
        sent = SentBatch(topic, partition, records, data)
        self.sent.append(sent)
        return sent

    def show(self, topic: str, partition: int, records: dict[int, Record]) -> None:
        """A reader was shown these."""
        for offset, record in records.items():
            before = self.shown.setdefault((topic, partition, offset), record)
            if before != record:
                raise Broken("shown", f"{partition}@{offset} was {before[1]!r} and is {record[1]!r}")

    def last_known(self, place: tuple[str, int]) -> int:
        """The last offset of a partition that was acknowledged or shown; -1: none."""
        found = [batch for batch in self.sent if (batch.topic, batch.partition) == place and batch.offsets]
        shown = [offset for topic, partition, offset in self.shown if (topic, partition) == place]
        return max([-1, *shown, *(max(batch.offsets) + len(batch.records) - 1 for batch in found)])

    def forget(self, place: tuple[str, int], begin: int) -> None:
        """What was at an offset and behind it was damaged, and is cut: it may be gone, its offsets are given again."""
        for batch in self.sent:
            if (batch.topic, batch.partition) == place:
                batch.offsets = {offset for offset in batch.offsets if offset < begin}
        self.shown = {each: record for each, record in self.shown.items() if each[:2] != place or each[2] < begin}

    def check(
        self,
        topic: str,
        partition: int,
        found: dict[int, Record],
        earliest: Offset,
        latest: Offset,
        refused: Collection[int] = (),
    ) -> None:
        """Hold what a partition holds against what was promised. `refused`: offsets whose read is refused for damage.
        O(records).
        """
        compacted = self.compacted[topic, partition]
        newest: dict[bytes, int] = {key: offset for offset, (key, _) in found.items()}

        def may_be_gone(offset: int, key: bytes) -> bool:
            if offset in refused and offset not in found:
                return True
            # What is refused may be what replaced it.
            return offset < earliest or (offset < compacted and (bool(refused) or newest.get(key, -1) > offset))

        for offset in range(earliest, latest + 1):
            if offset not in found and offset >= compacted and offset not in refused:
                raise Broken("dense", f"{partition}@{offset} is missing of {earliest} to {latest}")
        seen = Counter(value for _, value in found.values())
        known: set[bytes] = set()
        for batch in self.sent:
            if (batch.topic, batch.partition) == (topic, partition):
                self._check_batch(batch, found, seen, may_be_gone)
                known.update(value for _, value in batch.records)
        if strangers := set(seen) - known:
            raise Broken("unwritten", f"partition {partition} holds {min(strangers)!r}")
        for (of, number, offset), record in self.shown.items():
            if (
                (of, number) == (topic, partition)
                and found.get(offset) != record
                and not may_be_gone(offset, record[0])
            ):
                raise Broken("shown", f"{partition}@{offset} was {record[1]!r} and is {found.get(offset)}")

    def _check_batch(
        self,
        batch: SentBatch,
        found: dict[int, Record],
        seen: Counter[bytes],
        may_be_gone: Callable[[int, bytes], bool],
    ) -> None:
        for base in batch.offsets:
            for at, record in enumerate(batch.records):
                if found.get(base + at) != record and not may_be_gone(base + at, record[0]):
                    raise Broken(
                        "acknowledged",
                        f"{record[1]!r} was acknowledged at {batch.partition}@{base + at}, which holds "
                        f"{found.get(base + at)}",
                    )
        for _, value in batch.records:
            if seen[value] > batch.copies:
                name = "unwritten" if batch.copies else "refused"
                raise Broken(name, f"{value!r} is there {seen[value]} times; {batch.copies} copies may be")
        places = [offset for offset, record in found.items() if record == batch.records[0]]
        for base in places:
            for at, record in enumerate(batch.records):
                if found.get(base + at) != record and not may_be_gone(base + at, record[0]):
                    raise Broken("whole", f"{batch.partition}@{base} begins a batch, and {base + at} is not {record}")
