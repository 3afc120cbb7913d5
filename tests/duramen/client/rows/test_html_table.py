"""The first rows of a table in a notebook: escaped, shortened, and an error in place of a hang."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from kit.rows.flights import WIDE, Flight, Wide

import duramen
from duramen.blocking import Database
from duramen.client.rows.html_table import HTML_ROWS


def shown(table: object) -> str:
    found = table._repr_html_()  # type: ignore[attr-defined]
    assert isinstance(found, str)
    return found


def test_the_first_rows_are_shown_with_their_types(db: Database) -> None:
    flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
    flights.put_many(Flight("UA", number, None, 1.5) for number in range(3))
    found = shown(flights)
    assert "<th>carrier (key)</th><th>flight (key)</th><th>tailnum</th>" in found
    assert "<td><i>string</i></td><td><i>long</i></td><td><i>null or string</i></td>" in found
    assert "<tr><td>UA</td><td>2</td><td>null</td><td>1.5</td><td></td></tr>" in found
    assert "all rows" in found
    flights.put_many(Flight("UA", number, None, 1.5) for number in range(30))
    found = shown(flights)
    assert found.count("<tr>") == 2 + HTML_ROWS
    assert "the first of more rows" in found


def test_what_is_in_a_row_is_text(db: Database) -> None:
    """HTML in a row is shown, and never run."""
    flights = db.create_table("flights", row=Flight, key=("carrier", "flight"))
    flights.put(Flight("<script>alert(1)</script>", 1, "x" * 100_000, 0.0))
    found = shown(flights)
    assert "<script>" not in found
    assert "&lt;script&gt;" in found
    assert len(found) < 2000


def test_every_type_is_shown(db: Database) -> None:
    wide = db.create_table("wide", row=Wide, key="id")
    wide.put(replace(WIDE, parts=[WIDE]))
    found = shown(wide)
    assert "<i>decimal(12, 2)</i>" in found
    assert "<td>-9999999999.99</td>" in found
    assert "<td>…</td>" in found, "it has more than twenty columns"


@dataclass
class Other:
    """No row of the table."""

    carrier: str


def test_where_rows_cannot_be_had_the_error_is_shown(tmp_path: Path) -> None:
    with duramen.open(tmp_path / "data") as db:
        db.create_table("flights", row=Flight, key=("carrier", "flight"))
        assert "this row type is not the table" in shown(db.table("flights", row=Other))
        assert "there is no table" in shown(db.table("gone", row=Flight))
