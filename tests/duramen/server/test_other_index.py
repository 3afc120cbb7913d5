"""An index that a newer Duramen left: after an update was taken back, on the same folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.deadlines import wait_until
from kit.storage.versioned_document import sealed_json

import duramen
from duramen.blocking import Table

pytestmark = pytest.mark.embedded_log_only


def marker_in(folder: Path) -> Path:
    """The marker of the one index of a new database, in which a key is."""
    with duramen.open(folder) as database:
        table = database.create_table("flights", partitions=1)
        table.put(b"UA1", b"on time")
        assert table.get(b"UA1") == b"on time", "the index has applied it"
    return next((folder / "index").glob("*/0/index.json"))


def refusal(table: Table) -> str:
    """Why the table is not served; empty while it is not known."""
    try:
        table.get(b"UA1")
    except duramen.NotHosted:
        return ""
    except duramen.UnknownFormat as error:
        return error.message
    raise AssertionError("the index was read, or built anew")


def refused(table: Table) -> str:
    """Why the table is not served, when that is known."""
    wait_until(lambda: refusal(table) != "", "the replica was tried")
    return refusal(table)


def test_an_index_with_a_field_that_is_not_known_is_carried_on(tmp_path: Path) -> None:
    marker = marker_in(tmp_path / "data")
    inode = (marker.parent / "data.mdb").stat().st_ino
    marker.write_bytes(sealed_json(marker.read_bytes(), lambda fields: fields.update(added=[1])))
    with duramen.open(tmp_path / "data") as database:
        table = database.table("flights")
        assert table.get(b"UA1") == b"on time"
        table.put(b"UA2", b"late")
        assert table.get(b"UA2") == b"late"
    assert (marker.parent / "data.mdb").stat().st_ino == inode, "and was not built anew"
    assert b"added" not in marker.read_bytes(), "what it said of the file need not hold any more"


@pytest.mark.parametrize("version", [1, 2], ids=["the index", "a version next to it"])
def test_an_index_of_a_newer_format_is_kept_and_named(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "data"
    marker = marker_in(folder)
    if version > 1:
        other = marker.parent.with_name("0.v2")
        other.mkdir()
        (other / "data.mdb").write_bytes((marker.parent / "data.mdb").read_bytes())
        marker = other / marker.name
        marker.write_bytes((folder / "index" / other.parent.name / "0" / "index.json").read_bytes())
    before = marker.read_bytes()
    newer = sealed_json(before, lambda fields: fields.update(version=4, other="layout"))
    marker.write_bytes(newer)
    data = (marker.parent / "data.mdb").read_bytes()
    for _ in range(2):
        with duramen.open(folder) as database:
            table = database.table("flights")
            message = refused(table)
            assert "index.json has format version 4, this process reads version 3" in message
            assert "update this process" in message
            database.create_table("trains", partitions=1).put(b"T1", b"others go on")
            database.drop_table("trains")
        assert marker.read_bytes() == newer
        assert (marker.parent / "data.mdb").read_bytes() == data
