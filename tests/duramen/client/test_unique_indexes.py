"""Unique indexes as programs meet them: blocking, asynchronous, embedded, and two programs at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import ServerProcess, run_duramen

import duramen
from duramen import OrderedIndex, aio
from duramen.client.rows.row_indexes import IndexState


@dataclass
class Member:
    """A row whose e-mail address one member of a club has alone."""

    club: str
    number: int
    email: str | None
    name: str = ""


BY_EMAIL = {"by_email": OrderedIndex("club", "email", unique=True)}
HOW: dict[str, Any] = {"row": Member, "key": ("club", "number"), "partition_by": "club", "indexes": BY_EMAIL}


@pytest.fixture(params=["embedded", "connected"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "embedded":
        with duramen.open(tmp_path / "data") as opened:
            yield opened
        return
    started = ServerProcess(tmp_path / "data", log=tmp_path / "log")
    with started.connect() as connected:
        yield connected
    started.close()


def test_as_the_page_says(db: Any) -> None:
    members = db.create_table("members", **HOW)
    assert members.indexes() == [IndexState("by_email", ("club", "email"), in_service=True, unique=True)]
    members.put(Member("chess", 1, "a@x"))
    members.put(Member("chess", 1, "a@x", "again"))
    members.put(Member("rowing", 1, "a@x"))
    members.put_many([Member("chess", 2, None), Member("chess", 3, None)])
    with pytest.raises(duramen.UniqueViolation, match=r'\["chess",1\] has the values of club, email.*by_email') as hit:
        members.put(Member("chess", 4, "a@x"))
    assert hit.value.fields["index"] == "by_email"
    assert hit.value.fields["indexed"] == "club,email"
    assert hit.value.fields["row"] == '["chess",1]'
    assert hit.value.fields["refused"] == '["chess",4]'
    assert members.get("chess", 4) is None
    with pytest.raises(duramen.UniqueViolation, match=r'\["chess",1\]'):
        members.update("chess", 2, set={"email": "a@x"})
    with pytest.raises(duramen.ConditionFailed):
        members.put(Member("chess", 1, "b@x"), if_absent=True)
    with pytest.raises(duramen.UniqueViolation, match="the atomic batch was rejected at its record"):
        members.batch().put(Member("chess", 5, "c@x")).put(Member("chess", 6, "c@x")).commit()
    assert members.get("chess", 5) is None, "a group with one violation is void whole"
    members.batch().delete("chess", 1).put(Member("chess", 4, "a@x")).commit()
    assert [each.number for each in members.find(club="chess", email="a@x")] == [4]


def test_many_rows_of_which_some_are_refused(db: Any) -> None:
    members = db.create_table("members", **HOW)
    members.put(Member("chess", 1, "a@x"))
    rows = [Member("chess", 2, "b@x"), Member("chess", 3, "a@x"), Member("chess", 4, "b@x"), Member("chess", 5, "c@x")]
    with pytest.raises(duramen.UniqueViolation, match=r'2 rows of this call.*: \["chess",3\], \["chess",4\]') as hit:
        members.put_many(rows)
    assert (hit.value.fields["rows"], hit.value.fields["refused"]) == (2, '["chess",3]')
    assert [each.number for each in members.scan(level="strong")] == [1, 2, 5]


def test_what_no_table_can_promise_is_refused(db: Any) -> None:
    with pytest.raises(duramen.InvalidSchema, match=r"decide the partition \(club\)"):
        db.create_table("members", **HOW | {"indexes": {"by_email": OrderedIndex("email", unique=True)}}, partitions=2)
    alone = db.create_table(
        "alone", **HOW | {"indexes": {"by_email": OrderedIndex("email", unique=True)}}, partitions=1
    )
    alone.put(Member("chess", 1, "a@x"))
    with pytest.raises(duramen.UniqueViolation):
        alone.put(Member("rowing", 1, "a@x"))
    members = db.create_table("members", **HOW)
    with pytest.raises(duramen.InvalidSchema, match="comes with its table"):
        members.create_index("by_name", "club", "name", unique=True)
    members.create_index("by_email", "club", "email", unique=True)
    with pytest.raises(duramen.InvalidSchema, match="one of that name already, which is unique"):
        members.create_index("by_email", "club", "email")
    members.drop_index("by_email")
    members.put_many([Member("chess", 1, "a@x"), Member("chess", 2, "a@x")])


def test_a_cleared_table_keeps_its_promise(tmp_path: Path) -> None:
    started = ServerProcess(tmp_path / "data", log=tmp_path / "log")
    with started.connect() as db:
        members = db.create_table("members", **HOW)
        members.put(Member("chess", 1, "a@x"))
        done = run_duramen("admin", "clear", "members", "--yes", "--wait", at=started.target)
        assert done.returncode == 0, done
        members.put(Member("chess", 2, "a@x"))
        with pytest.raises(duramen.UniqueViolation, match=r'\["chess",2\]'):
            members.put(Member("chess", 1, "a@x"))
    started.close()


async def test_of_two_callers_in_one_round_one_has_the_value(tmp_path: Path) -> None:
    async with await aio.open(tmp_path / "data") as db:
        members: Any = await db.create_table("members", **HOW)
        for turn in range(5):
            calls = [members.put(Member("chess", 100 * turn + number, f"{turn}@x")) for number in range(20)]
            found = await asyncio.gather(*calls, return_exceptions=True)
            done = [number for number, each in enumerate(found) if not isinstance(each, BaseException)]
            assert len(done) == 1, found
            holder = f'["chess",{100 * turn + done[0]}]'
            refused = [each for each in found if isinstance(each, duramen.UniqueViolation)]
            assert len(refused) == 19
            assert {each.fields["row"] for each in refused} == {holder}


def test_of_two_programs_at_two_connections_one_has_the_value(tmp_path: Path) -> None:
    started = ServerProcess(tmp_path / "data", log=tmp_path / "log")
    with started.connect() as one, started.connect() as other:
        here, there = one.create_table("members", **HOW), other.table("members", row=Member)
        here.put(Member("chess", 1, "a@x"))
        with pytest.raises(duramen.UniqueViolation):
            there.put(Member("chess", 2, "a@x"))
        here.delete("chess", 1)
        there.put(Member("chess", 2, "a@x"))
        with pytest.raises(duramen.UniqueViolation):
            here.put(Member("chess", 1, "a@x"))
    started.close()
