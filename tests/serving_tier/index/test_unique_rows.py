"""Unique indexes in either index, against a model of a dict: of each value one row at most, whoever asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.flight_rows import FLIGHTS, flight, flight_key
from kit.log.stored_log import PARTITION, TABLE, Said, StoredLog, put
from kit.rows.patches import patch_of

from log_tier.model.batch import decode_batch
from log_tier.model.errors import UniqueViolation
from log_tier.model.identifiers import Offset, PartitionId
from log_tier.model.record import Condition, Expiry, Operation
from log_tier.rows.finding.conditions import conditions_of
from log_tier.rows.table_index import TableIndex
from serving_tier.fold.verdicts import Verdict, rejection_of
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

PLACE = PartitionId(TABLE, PARTITION)
BY_TAIL = TableIndex(1, "by_tail", ("carrier", "tailnum"), unique=True)
LATE = TableIndex(4, "late", ("carrier", "dep_delay"), conditions_of({"dep_delay": (1.0, None)}, FLIGHTS), unique=True)
PLAIN = TableIndex(2, "plain", ("tailnum",))
UNIQUE = replace(FLIGHTS, indexes=(BY_TAIL, PLAIN, LATE))
SCHEMA = FLIGHTS.schemas[0].schema
NewIndex = Callable[[], Any]


@pytest.fixture(params=["in memory", "on disk"])
def new_index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewIndex]:
    made: list[Any] = []

    def make() -> Any:
        folder = tmp_path / f"index{len(made)}"
        made.append(
            MemoryIndex(definition=UNIQUE)
            if request.param == "in memory"
            else LmdbIndex.open(folder, partition=PLACE, definition=UNIQUE)
        )
        return made[-1]

    yield make
    for index in made:
        index.close()


class HeldFlight(NamedTuple):
    tailnum: str | None
    dep_delay: float
    expires: int | None


class Doubled(Exception):
    """Another row has a value."""

    def __init__(self, number: int, holder: tuple[str, int]) -> None:
        super().__init__(number, holder)
        self.number, self.holder = number, holder


class NotWritten(Exception):
    """A condition does not hold, or there is no row to patch."""


@dataclass
class UniqueModel:
    """Unique indexes in straight lines: all rows are looked at for each write."""

    rows: dict[tuple[str, int], HeldFlight] = field(default_factory=dict)
    now: int = 0

    def live(self) -> dict[tuple[str, int], HeldFlight]:
        return {key: row for key, row in self.rows.items() if row.expires is None or row.expires > self.now}

    def write(self, write: FlightWrite) -> None:
        live = self.live()
        there = live.get(write.key)
        if (write.condition is Condition.ABSENT and there) or (write.condition is Condition.PRESENT and not there):
            raise NotWritten
        if write.kind == "delete":
            self.rows.pop(write.key, None)
            return
        kept = None if there is None else there.expires
        if write.kind == "patch":
            if there is None:
                raise NotWritten
            row = HeldFlight(write.tailnum, there.dep_delay, kept)
        else:
            expires = {Expiry.TTL: self.now + write.ttl, Expiry.KEEP: kept}.get(write.expiry)
            row = HeldFlight(write.tailnum, write.dep_delay, expires)
        for number, value_of in ((1, lambda each: each.tailnum), (4, late_value)):
            mine = value_of(row)
            for key, other in live.items():
                if mine is not None and key != write.key and key[0] == write.key[0] and value_of(other) == mine:
                    raise Doubled(number, key)
        self.rows[write.key] = row


def late_value(row: HeldFlight) -> float | None:
    return row.dep_delay if row.dep_delay >= 1.0 else None


@dataclass(frozen=True)
class FlightWrite:
    kind: str
    key: tuple[str, int]
    tailnum: str | None = None
    dep_delay: float = 0.0
    condition: Condition = Condition.NONE
    expiry: Expiry = Expiry.NONE
    ttl: int = 0
    grouped: bool = False

    def said(self) -> Said:
        key = flight_key(*self.key)
        if self.kind == "delete":
            return Said(Operation.DELETE, key, condition=self.condition, grouped=self.grouped)
        if self.kind == "patch":
            value = patch_of(SCHEMA, set={"tailnum": self.tailnum})
            return Said(Operation.PATCH, key, value, self.condition, grouped=self.grouped)
        value = flight(*self.key, self.tailnum, self.dep_delay)
        return Said(Operation.PUT, key, value, self.condition, 0, self.expiry, self.ttl, self.grouped)


WRITES = st.builds(
    FlightWrite,
    st.sampled_from(["put", "put", "put", "patch", "delete"]),
    st.tuples(st.sampled_from(["UA", "DL"]), st.integers(0, 4)),
    st.sampled_from([None, "N1", "N2"]),
    st.sampled_from([0.0, 0.5, 1.5, 2.5]),
    st.sampled_from([Condition.NONE, Condition.NONE, Condition.NONE, Condition.ABSENT, Condition.PRESENT]),
    st.sampled_from([Expiry.NONE, Expiry.NONE, Expiry.TTL, Expiry.KEEP]),
    st.just(20),
    st.booleans(),
)
# Of plain puts the fold has a path of its own.
PLAIN_WRITES = st.builds(
    FlightWrite, st.just("put"), st.tuples(st.just("UA"), st.integers(0, 4)), st.sampled_from([None, "N1", "N2"])
)
BATCHES = st.lists(
    st.tuples(
        st.integers(0, 15),
        st.one_of(st.lists(WRITES, min_size=1, max_size=6), st.lists(PLAIN_WRITES, min_size=1, max_size=4)),
    ),
    min_size=1,
    max_size=12,
)


def fixed(write: FlightWrite) -> FlightWrite:
    return replace(write, ttl=write.ttl if write.kind == "put" and write.expiry is Expiry.TTL else 0)


@pytest.mark.parametrize("kind", ["in memory", "on disk"])
@given(drawn=BATCHES, size=st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_no_two_rows_have_a_value_wherever_a_chunk_ends(
    kind: str, drawn: list[tuple[int, list[FlightWrite]]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    log, model, batches, wanted = StoredLog(), UniqueModel(), [], {}
    for later_ms, writes in drawn:
        writes = [fixed(write) for write in writes]
        first = log.next_offset
        batches.append(log.append(*[write.said() for write in writes], later_ms=later_ms))
        model.now = log.time_ms
        for at, group in groups_of(writes):
            before = dict(model.rows)
            for place, write in enumerate(group):
                try:
                    model.write(write)
                except (Doubled, NotWritten) as refused:
                    model.rows = before
                    for member in range(len(group)):
                        wanted[first + at + member] = (refused, first + at + place)
                    break
    if kind == "in memory":
        index: Any = MemoryIndex(definition=UNIQUE)
    else:
        index = LmdbIndex.open(tmp_path_factory.mktemp("unique") / "index", partition=PLACE, definition=UNIQUE)
    for at in range(0, len(batches), size):
        index.apply(b"".join(batches[at : at + size]))
    outcomes = index.outcomes(Offset(0), index.applied)
    rejected = {offset: each for offset, each in outcomes.items() if each.verdict is not Verdict.ACCEPTED}
    assert rejected.keys() == wanted.keys()
    for offset, (why, failed) in wanted.items():
        assert rejected[offset].failed == failed
        if isinstance(why, Doubled):
            assert rejected[offset].verdict is Verdict.VALUE_TAKEN
            assert (rejected[offset].actual, rejected[offset].result) == (why.number, flight_key(*why.holder))
    held = {key for key, _ in index.scan(b"", None, limit=1000).entries}
    assert held == {flight_key(*key) for key in model.live()}
    index.close()


def groups_of(writes: list[FlightWrite]) -> list[tuple[int, list[FlightWrite]]]:
    groups: list[tuple[int, list[FlightWrite]]] = []
    for at, write in enumerate(writes):
        if write.grouped and groups:
            groups[-1][1].append(write)
        else:
            groups.append((at, [write]))
    return groups


def test_the_first_of_two_in_one_batch_wins_and_the_other_hears_who(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index()
    index.apply(
        log.append(put(flight_key("UA", 1), flight("UA", 1, "N1")), put(flight_key("UA", 2), flight("UA", 2, "N1")))
    )
    outcome = index.outcomes(Offset(0), Offset(1))[Offset(1)]
    error = rejection_of(Offset(1), outcome)
    assert isinstance(error, UniqueViolation)
    assert error.fields == {"offset": 1, "failed": 1, "index": 1, "key": flight_key("UA", 1).hex()}
    assert index.get(flight_key("UA", 2)) is None


def test_a_row_put_over_itself_and_a_null_do_not_conflict(new_index: NewIndex) -> None:
    log, index = StoredLog(), new_index()
    for _ in range(2):
        index.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"))))
        index.apply(log.append(put(flight_key("UA", 2), flight("UA", 2, None))))
        index.apply(log.append(put(flight_key("UA", 3), flight("UA", 3, None))))
        index.apply(log.append(put(flight_key("DL", 1), flight("DL", 1, "N1"))))
    assert index.outcomes(Offset(0), index.applied) == {}
    assert index.count() == 4


@pytest.mark.parametrize("swept", [False, True])
def test_an_expiry_frees_a_value_whether_its_row_is_swept_or_not(new_index: NewIndex, swept: bool) -> None:
    log, index = StoredLog(), new_index()
    first = log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"), expiry=Expiry.TTL, expiry_ms=10))
    early = log.append(put(flight_key("UA", 2), flight("UA", 2, "N1")), later_ms=9)
    late = log.append(put(flight_key("UA", 2), flight("UA", 2, "N1")), later_ms=1)
    for chunk in [first, early, late] if swept else [first + early + late]:
        index.apply(chunk)
    assert {offset: each.verdict for offset, each in index.outcomes(Offset(0), Offset(2)).items()} == {
        1: Verdict.VALUE_TAKEN
    }


def test_a_version_that_follows_lets_give_way_what_the_live_one_does_not_have(tmp_path: Path) -> None:
    """It was made empty behind the first record, so the expiry that the second one kept is unknown to it."""
    log, live = StoredLog(), MemoryIndex(definition=UNIQUE)
    follower = LmdbIndex.open(tmp_path / "index", partition=PLACE, start=Offset(1), definition=UNIQUE)
    live.apply(log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"), expiry=Expiry.TTL, expiry_ms=10)))
    behind = [
        log.append(put(flight_key("UA", 1), flight("UA", 1, "N1"), expiry=Expiry.KEEP)),
        log.append(put(flight_key("UA", 2), flight("UA", 2, "N1")), later_ms=20),
    ]
    for batch in behind:
        assert not live.apply(batch).rejected
        follower.fold_in([decode_batch(batch)], decided=frozenset())
    for index in (live, follower):
        assert [key for key, _ in index.scan(b"", None, limit=10).entries] == [flight_key("UA", 2)]
    follower.close()
