"""Both indexes against the naive model: random records, retries, chunk boundaries, re-deliveries, crashes."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kit.index.naive_model import NaiveModel
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog

from log_tier.model.batch_header import read_header
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Expiry, Operation
from log_tier.tally.count import count_pieces
from serving_tier.fold.verdicts import Outcome, Verdict
from serving_tier.index.index import Index
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

# Mostly the same two, so that records meet; the others are at the edges of the order.
SOME_KEYS = [b"a", b"b"] * 4 + [b"c", b"a\x00", b"\xff", b"\xff\xff", b"k" * 511]
KEYS = st.sampled_from(SOME_KEYS)
NUMBERS = b"0 1 -3 007 2.5 .5 1e308 9223372036854775807 -9223372036854775808".split()
NO_NUMBERS = [b"", b"1e999", b"nan", b" 1", b"+1", b"1_0", b"92233720368547758070", b"text", b"x" * 5000]
SOME_VALUES = [b"1", b"-3", b"2.5"] * 4 + NUMBERS + NO_NUMBERS
VALUES = st.sampled_from(SOME_VALUES)
VERSIONS = st.integers(-1, 40)
# Few and small, so that records often meet an expiry in the millisecond in which it falls due.
SOME_TIMES = [0, 1, 2, 3, 4, 5, 60, 60_000]
TIMES = st.sampled_from(SOME_TIMES)


@st.composite
def said(draw: st.DrawFn) -> Said:
    operation = draw(st.sampled_from(Operation))
    expiry = draw(st.sampled_from([Expiry.NONE, Expiry.NONE, *Expiry]))
    expiry_ms = draw(TIMES) - 3
    return Said(
        operation,
        draw(KEYS),
        draw(VALUES),
        condition=draw(st.sampled_from([Condition.NONE, Condition.NONE, *Condition])),
        version=draw(VERSIONS),
        expiry=expiry,
        expiry_ms=expiry_ms + 1_000_000 if expiry is Expiry.AT else expiry_ms,
        grouped=draw(st.booleans()),
    )


def plain_put() -> st.SearchStrategy[Said]:
    return st.builds(Said, st.just(Operation.PUT), KEYS, VALUES)


RECORDS = st.one_of(
    st.lists(said(), min_size=1, max_size=8).map(lambda said: [_ungrouped(said[0]), *said[1:]]),
    st.lists(plain_put(), min_size=1, max_size=8),
)


def _ungrouped(record: Said) -> Said:
    return Said(**{**{name: getattr(record, name) for name in Said.__dataclass_fields__}, "grouped": False})


def expected_outcome(model: NaiveModel, offset: int) -> Outcome | None:
    """What `outcomes` should say about one offset; None for nothing."""
    if offset in model.copies:
        original = Offset(model.copies[offset])
        if original < 0:
            return Outcome(Verdict.DUPLICATE, duplicate_of=original)
        return (expected_outcome(model, original) or Outcome())._replace(duplicate_of=original)
    if offset in model.rejected:
        verdict, actual, failed = model.rejected[offset]
        return Outcome(Verdict[verdict], actual, Offset(failed))
    if offset in model.results:
        return Outcome(result=model.results[offset])
    return None


def check(index: Index, model: NaiveModel, since: int = 0) -> None:
    """Every read of `index` says what the model says; outcomes from the offset `since` on."""
    assert (index.applied, index.log_time_ms) == (model.applied, model.now)
    live = model.live()
    page = index.scan(b"", None)
    assert {key: tuple(entry) for key, entry in page.entries} == live
    assert [key for key, _ in page.entries] == list(live)
    assert page.applied == model.applied
    assert not page.more
    backwards = index.scan(b"a", b"\xff", reverse=True)
    assert [key for key, _ in backwards.entries] == [key for key in reversed(live) if b"a" <= key < b"\xff"]
    asked = [b"a", b"b", b"\xff", b"nowhere", b"k" * 511]
    found = index.get_many(asked)
    expiries = found.expiries or [0] * len(asked)
    wanted = [live.get(key, (None, -1, 0)) for key in asked]
    assert list(zip(found.values, found.versions, expiries, strict=True)) == wanted
    for key in asked:
        assert index.get_value(key) == (live[key][0] if key in live else None)
        entry = index.get(key)
        assert (None if entry is None else tuple(entry)) == live.get(key)
    assert index.count() == len(live)
    soonest = min((expires for _, _, expires in live.values() if expires), default=None)
    hint = index.next_expiry_ms()
    assert hint is None or hint > model.now
    assert soonest is None or (hint is not None and hint <= soonest)
    offsets = range(since, model.applied + 1)
    expected = {offset: outcome for offset in offsets if (outcome := expected_outcome(model, offset)) is not None}
    assert index.outcomes(Offset(since), Offset(max(0, model.applied))) == expected
    if len(offsets) > 3:
        middle, end = Offset(offsets[len(offsets) // 2]), Offset(model.applied - 1)
        assert index.outcomes(middle, end) == {at: what for at, what in expected.items() if middle <= at <= end}
    for newest in offsets[-3:]:
        said = index.outcomes(Offset(newest), Offset(model.applied))
        assert said == {at: what for at, what in expected.items() if at >= newest}
    for producer_id, state in model.producers.items():
        assert index.producer(producer_id) == state


class IndexMachine(RuleBasedStateMachine):
    """Records are appended to a log; its batches are delivered in chunks of any size, again and again."""

    @initialize()
    def start(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.log, self.model = StoredLog(), NaiveModel()
        self.said: list[tuple[list[Said], int, int, int]] = []
        self.delivered = 0
        self.next_sequence: dict[int, int] = {}
        self.memory = MemoryIndex()
        self.lmdb = self.opened()

    def opened(self) -> LmdbIndex:
        return LmdbIndex.open(self.folder, partition=PartitionId(TABLE, PARTITION), map_bytes=1 << 26)

    @rule(
        records=RECORDS,
        producer_id=st.integers(0, 3),
        later_ms=TIMES,
        gap=st.sampled_from([0, 0, 2]),
        zstd=st.booleans(),
    )
    def append(self, records: list[Said], producer_id: int, later_ms: int, gap: int, zstd: bool) -> None:
        sequence = self.next_sequence.get(producer_id, 0) + gap
        self.store(records, producer_id, sequence, later_ms, zstd=zstd)
        self.next_sequence[producer_id] = sequence + len(records)

    @precondition(lambda self: self.said)
    @rule(data=st.data(), shift=st.sampled_from([0, 0, 0, 1, -1]))
    def retry(self, data: st.DataObject, shift: int) -> None:
        """A batch comes again, or (a strange client) one that overlaps what was seen."""
        records, _, producer_id, sequence = data.draw(st.sampled_from(self.said[-4:]))
        sequence = max(0, sequence + shift)
        self.store(records, producer_id, sequence, 0)
        self.next_sequence[producer_id] = max(self.next_sequence.get(producer_id, 0), sequence + len(records))

    def store(self, records: list[Said], producer_id: int, sequence: int, later_ms: int, *, zstd: bool = False) -> None:
        self.log.append(*records, producer_id=producer_id, sequence=sequence, later_ms=later_ms, compress=zstd)
        self.said.append((records, self.log.time_ms, producer_id, sequence))

    @precondition(lambda self: self.delivered < len(self.said))
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        """Some new batches in one chunk to one index, batch by batch to the other, after some old ones."""
        upto = data.draw(st.integers(self.delivered + 1, len(self.said)))
        again = data.draw(st.integers(0, self.delivered))
        self.lmdb.apply(b"".join(self.log.batches[again:upto]))
        for batch in self.log.batches[self.delivered : upto]:
            self.memory.apply(batch)
        for step in self.said[self.delivered : upto]:
            self.model.batch(*step)
        self.delivered = upto

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.lmdb.close(clean=clean)
        self.lmdb = self.opened()

    @invariant()
    def agree(self) -> None:
        if hasattr(self, "lmdb"):
            check(self.lmdb, self.model)
            check(self.memory, self.model)
            assert self.lmdb.digest() == self.memory.digest()
            headers = map(read_header, self.log.batches[: self.delivered])
            counted = (0, self.lmdb.applied, tuple(count_pieces(headers, start=Offset(0), ends=[])))
            assert self.lmdb.tally() == self.memory.tally() == counted

    def teardown(self) -> None:
        if hasattr(self, "lmdb"):
            self.lmdb.close(clean=False)
            shutil.rmtree(self.folder)


def random_record(random: Random, grouped: bool, applied: int) -> Said:
    expiry = random.choice([Expiry.NONE, Expiry.NONE, *Expiry])
    return Said(
        random.choice(list(Operation)),
        random.choice(SOME_KEYS),
        random.choice(SOME_VALUES),
        condition=random.choice([Condition.NONE, Condition.NONE, Condition.NONE, *Condition]),
        version=random.randint(max(-1, applied - 20), applied),
        expiry=expiry,
        expiry_ms=random.choice(SOME_TIMES) + (1_000_000 + applied // 2 if expiry is Expiry.AT else 0),
        grouped=grouped,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_long_random_log(seed: int, tmp_path: Path) -> None:
    """Thousands of records: too many for a search that shrinks, and they reach states that a short log does not."""
    random, log, model, memory = Random(seed), StoredLog(), NaiveModel(), MemoryIndex()
    said: list[tuple[list[Said], int, int, int]] = []
    next_sequence = [0] * 4
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    for _ in range(250):
        first, since = len(said), model.applied + 1
        for _ in range(random.randint(1, 6)):
            if said and random.random() < 0.2:
                records, _, producer_id, sequence = random.choice(said[-5:])
                sequence = max(0, sequence + random.choice([0, 0, 0, 1, -1]))
            elif random.random() < 0.3:
                records = [
                    Said(Operation.PUT, random.choice(SOME_KEYS), b"%d" % at) for at in range(random.randint(1, 9))
                ]
                producer_id = random.randrange(4)
                sequence = next_sequence[producer_id]
            else:
                records = [
                    random_record(random, at > 0 and random.random() < 0.4, log.next_offset)
                    for at in range(random.randint(1, 15))
                ]
                producer_id = random.randrange(4)
                sequence = next_sequence[producer_id]
            next_sequence[producer_id] = max(next_sequence[producer_id], sequence + len(records))
            log.append(*records, producer_id=producer_id, sequence=sequence, later_ms=random.choice(SOME_TIMES[:-1]))
            said.append((records, log.time_ms, producer_id, sequence))
        again = random.randint(max(0, first - 3), first)
        index.apply(b"".join(log.batches[again:]))
        for batch, step in zip(log.batches[first:], said[first:], strict=True):
            memory.apply(batch)
            model.batch(*step)
        check(index, model, since)
        check(memory, model, since)
        assert index.digest() == memory.digest()
        if random.random() < 0.02:
            index.close(clean=random.random() < 0.5)
            index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    index.close()
    assert model.applied > 4000
    assert {verdict for verdict, _, _ in model.rejected.values()} == {
        "CONDITION_FAILED",
        "MISFIT",
        "NOT_A_NUMBER",
        "NUMBER_OVERFLOW",
        "UNREADABLE",
    }
    assert len(model.copies) > 100
    assert len(model.results) > 100


TestIndexes = IndexMachine.TestCase
TestIndexes.settings = settings(
    max_examples=50, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(RECORDS, TIMES, st.integers(0, 2)), min_size=2, max_size=12),
    cuts=st.lists(st.booleans(), min_size=12, max_size=12),
)
def test_chunk_boundaries_do_not_matter(steps: list[tuple[list[Said], int, int]], cuts: list[bool]) -> None:
    log = StoredLog()
    for records, later_ms, producer_id in steps:
        # Every second batch of a producer says what the first said: a retry.
        log.append(*records, producer_id=producer_id, sequence=len(log.batches) // 2, later_ms=later_ms)
    whole, single, cut = MemoryIndex(), MemoryIndex(), MemoryIndex()
    whole.apply(b"".join(log.batches))
    for batch in log.batches:
        single.apply(batch)
    chunk: list[bytes] = []
    for batch, ends_here in zip(log.batches, [*cuts, *[True] * len(log.batches)], strict=False):
        chunk.append(batch)
        if ends_here:
            cut.apply(b"".join(chunk))
            chunk = []
    cut.apply(b"".join(chunk))
    last = Offset(log.next_offset)
    pictures = [
        (
            index.digest(),
            index.outcomes(Offset(0), last),
            [index.producer(each) for each in (1, 2)],
            index.next_expiry_ms(),
            index.statistics(),
            index.tally(),
        )
        for index in (whole, single, cut)
    ]
    assert pictures[0] == pictures[1] == pictures[2]
