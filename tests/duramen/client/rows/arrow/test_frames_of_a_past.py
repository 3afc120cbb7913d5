"""A table of rows as Arrow, as it was at a token or a time: blocking, asynchronous, embedded and connected."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from kit.rows.flights import Flight, GatedFlight

import duramen
from duramen.blocking import Database, RowTable

KEY = ("carrier", "flight")


def flights_of(found: Any) -> list[Flight]:
    return [Flight(**each) for each in found.to_pylist()]


@pytest.fixture
def kept(db: Database) -> RowTable[Flight]:
    return db.create_table("kept", row=Flight, key=KEY, partitions=3, history="all")


def test_every_state_is_what_was_there(kept: RowTable[Flight]) -> None:
    chance = Random("frames")
    model: dict[tuple[str, int], Flight] = {}
    states: list[tuple[str, list[Flight]]] = [(kept.end_token(), [])]
    for _ in range(4):
        rows = [
            Flight(chance.choice(("AA", "UA")), chance.randrange(900), None, float(chance.randrange(3)))
            for _ in range(700)
        ]
        kept.put_many(rows)
        model |= {(row.carrier, row.flight): row for row in rows}
        for key in chance.sample(sorted(model), 80):
            kept.delete(*key)
            del model[key]
        states.append((kept.end_token(), [model[key] for key in sorted(model)]))
    for token, rows in states:
        assert flights_of(kept.to_arrow(at=token)) == rows
        late = [row for row in rows if row.carrier == "UA" and row.flight >= 300 and row.dep_delay == 2.0]
        how: dict[str, Any] = {"where": {"carrier": "UA", "flight": (300, None), "dep_delay": 2.0}, "at": token}
        assert kept.to_arrow(["flight"], **how)["flight"].to_pylist() == [row.flight for row in late]
        assert flights_of(kept.to_arrow(limit=5, **how)) == late[:5]
        assert flights_of(pa.Table.from_batches([*kept.arrow_batches(at=token)], kept.to_arrow().schema)) == rows
    assert flights_of(pa.table(kept)) == states[-1][1], "the stream protocol has the present"
    assert kept.to_arrow(at=datetime(2001, 1, 1, tzinfo=UTC)).num_rows == 0
    assert flights_of(kept.to_arrow(at=datetime.now(UTC) + timedelta(days=1))) == states[-1][1]


def test_what_is_written_meanwhile_is_in_no_later_batch(kept: RowTable[Flight]) -> None:
    rows = [Flight("UA", number, None, 0.0) for number in range(3000)]
    kept.put_many(rows)
    reader = kept.arrow_batches(at=kept.end_token())
    first = next(reader)
    kept.put_many(Flight("UA", number, "N1", 9.0) for number in range(4000))
    assert 0 < first.num_rows < 3000
    assert flights_of(pa.Table.from_batches([first, *reader])) == rows


def test_rows_of_earlier_schemas_have_the_newest_columns(db: Database, kept: RowTable[Flight]) -> None:
    kept.put(Flight("UA", 1, None, 0.0))
    then = kept.end_token()
    gated = kept.alter(row=GatedFlight)
    gated.put(GatedFlight("UA", 2, None, 0.0, gate="B7"))
    assert gated.to_arrow(["flight", "gate"], at=then).to_pylist() == [{"flight": 1, "gate": "-"}]
    assert gated.to_arrow(["gate"], at=gated.end_token())["gate"].to_pylist() == ["-", "B7"]


@pytest.mark.parametrize("is_past", [True, False])
def test_a_schema_that_another_client_gave_is_read(db: Database, kept: RowTable[Flight], is_past: bool) -> None:
    """The columns are those that this table knew when the scan began."""
    kept.put(Flight("UA", 1, None, 0.0))
    other = db.table("kept", row=Flight).alter(row=GatedFlight)
    other.put_many(GatedFlight("UA", number, None, 0.0, gate="B7") for number in range(2, 2000))
    found = kept.to_arrow(at=kept.end_token() if is_past else None)
    assert flights_of(found) == [Flight("UA", number, None, 0.0) for number in range(1, 2000)]
    assert "gate" in kept.to_arrow(limit=1).schema.names, "the next one has the newest"


def test_what_is_no_state_is_refused(db: Database, kept: RowTable[Flight]) -> None:
    plain = db.create_table("plain", row=Flight, key=KEY)
    plain.put(Flight("UA", 1, None, 0.0))
    done = kept.put(Flight("UA", 1, None, 0.0))
    whole = kept.end_token()
    ((table, offsets),) = duramen.Token.parse(whole).tables.items()
    ahead = duramen.Token({table: {each: type(offset)(offset + 1000) for each, offset in offsets.items()}})
    refusals: list[tuple[RowTable[Flight], Any, type[duramen.DuramenError], str]] = [
        (plain, plain.end_token(), duramen.InvalidRequest, "keeps no history"),
        (kept, done.token, duramen.InvalidToken, "names no offset of partition"),
        (kept, plain.end_token(), duramen.InvalidToken, "table"),
        (kept, ahead, duramen.TokenAhead, "beyond|ahead|ends"),
        (kept, datetime(2026, 1, 1), duramen.InvalidRequest, "no time zone"),
        (kept, float("nan"), duramen.InvalidToken, "token"),
    ]
    for asked, at, error, why in refusals:
        with pytest.raises(error, match=why):
            asked.to_arrow(at=at, timeout=5)
        with pytest.raises(error, match=why):
            next(asked.arrow_batches(at=at, timeout=5))
    with pytest.raises(duramen.InvalidRequest, match="leave out after="):
        kept.to_arrow(at=whole, after=whole)
    with pytest.raises(duramen.InvalidRequest, match="leave out after="):
        kept.to_arrow(at=whole, level="strong")


def test_a_state_that_is_not_kept(db: Database) -> None:
    short = db.create_table("short", row=Flight, key=KEY, partitions=1, history=2)
    first = short.put(Flight("UA", 1, None, 0.0))
    later = [short.put(Flight("UA", 1, None, float(number))) for number in range(3)]
    assert short.get("UA", 1) == Flight("UA", 1, None, 2.0), "the index has applied them all"
    with pytest.raises(duramen.HistoryGone) as gone:
        short.to_arrow(at=first.token)
    assert gone.value.fields["earliest"] == later[0].offset
    assert short.to_arrow(["dep_delay"], at=later[0].token).to_pylist() == [{"dep_delay": 0.0}]


def test_a_table_that_was_made_again(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        made = db.create_table("made", row=Flight, key=KEY, history="all")
        made.put(Flight("UA", 1, None, 0.0))
        token = made.end_token()
        db.drop_table("made")
        db.create_table("made", row=Flight, key=KEY, history="all")
        with pytest.raises(duramen.DuramenError) as refused:
            db.table("made", row=Flight).to_arrow(at=token)
        assert isinstance(refused.value, duramen.InvalidToken)


async def test_over_the_network(connected: Any) -> None:
    db = await connected()
    table = await db.create_table("flights", row=Flight, key=KEY, partitions=2, history="all")
    rows = [Flight("UA", number, None, 0.0) for number in range(1500)]
    await table.put_many(rows)
    then = await table.end_token()
    await table.put_many(Flight("UA", number, "N1", 9.0) for number in range(0, 1600, 2))
    other = (await connected()).table("flights", row=Flight)
    assert flights_of(await other.to_arrow(at=then)) == rows
    assert (await other.to_arrow(["flight"], where={"flight": (10, 13)}, at=then)).to_pylist() == [
        {"flight": number} for number in (10, 11, 12)
    ]
    batches = [each async for each in other.arrow_batches(["tailnum"], at=then)]
    assert len(batches) > 1
    assert {each for batch in batches for each in batch.column(0).to_pylist()} == {None}
    schema_of = await (await connected()).table("flights", row=Flight).alter(row=GatedFlight)
    await schema_of.put(GatedFlight("ZZ", 1, None, 0.0))
    assert (await other.to_arrow(at=await table.end_token())).num_rows == 1551
