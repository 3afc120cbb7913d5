"""A crash between the topic of a table and its command in the catalog: the table can still be made, as any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import duramen
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import CreateTable
from log_tier.model.errors import TableExists, TableNotFound


@dataclass
class Leg:
    carrier: str
    number: int
    miles: float


class Died(Exception):
    """The process, as far as its caller can see."""


def interrupted(folder: Path, monkeypatch: pytest.MonkeyPatch, **what: Any) -> None:
    """A database in `folder` that died in the middle of `create_table`."""
    submit = Catalog.submit

    async def dies(self: Catalog, command: Any, **more: Any) -> Any:
        if isinstance(command, CreateTable) and command.name == "legs":
            raise Died
        return await submit(self, command, **more)

    with duramen.open(folder) as db:
        db.create_table("others").put(b"a", b"1")
        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "submit", dies)
            with pytest.raises(Died):
                db.create_table("legs", **what)


@pytest.mark.parametrize(
    "was", [{"row": Leg, "key": ("carrier", "number")}, {}, {"value": "json"}, {"partitioner": "murmur2"}]
)
def test_what_is_asked_for_again_may_be_another_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was: dict[str, Any]
) -> None:
    interrupted(tmp_path / "data", monkeypatch, **{"partitions": 4, **was})
    with duramen.open(tmp_path / "data") as db:
        assert [each.name for each in db.tables()] == ["others"]
        with pytest.raises(TableNotFound):
            db.table("legs").get(b"a")
        legs = db.create_table("legs", row=Leg, key=("carrier", "number"), partition_by="carrier", partitions=4)
        legs.put(Leg("UA", 7, 719.0))
        assert db.table("others").get(b"a") == b"1"
    with duramen.open(tmp_path / "data") as db:
        assert db.table("legs", row=Leg, key=("carrier", "number")).get("UA", 7) == Leg("UA", 7, 719.0)


def test_in_the_process_that_goes_on_the_same_call_finishes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who failed may have been one of many routers, and its command may still come: no other call removes the topic."""
    submit = Catalog.submit

    async def fails(self: Catalog, command: Any, **more: Any) -> Any:
        if isinstance(command, CreateTable):
            raise Died
        return await submit(self, command, **more)

    with duramen.open(tmp_path / "data") as db:
        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "submit", fails)
            with pytest.raises(Died):
                db.create_table("legs", row=Leg, key=("carrier", "number"), partitions=4)
        with pytest.raises(TableExists, match=r"with 4 partitions has not come to its end.* ask for 4 partitions"):
            db.create_table("legs", partitions=2)
        db.create_table("legs", value="json", partitions=4).put(b"a", [1])
        assert db.table("legs", value="json").get(b"a") == [1]
