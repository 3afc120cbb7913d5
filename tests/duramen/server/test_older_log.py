"""A log that was put back from an older copy, beside an index that has applied more than it holds."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import duramen
from duramen.client.model.results import Done


@pytest.mark.embedded_log_only
def test_offsets_that_were_acknowledged_are_not_given_to_other_writes(tmp_path: Path) -> None:
    """They would be applied from the index's end on: what was acknowledged before that would never be seen."""
    folder, copy = tmp_path / "data", tmp_path / "copy"
    with duramen.open(folder) as database:
        table = database.create_table("flights", partitions=1)
        table.put(b"a", b"1")
    shutil.copytree(folder / "log", copy)
    with duramen.open(folder) as database:
        table = database.table("flights")
        last = table.put(b"b", b"2").offset
        assert table.get(b"b") == b"2", "the index has applied it"
    shutil.rmtree(folder / "log")
    shutil.copytree(copy, folder / "log")

    with duramen.open(folder) as database:
        table = database.table("flights")
        with pytest.raises(duramen.LogDamaged, match=f"has applied {last}"):
            table.put(b"c", b"3")
        with pytest.raises(duramen.LogDamaged, match=f"has applied {last}"):
            table.put_many([(b"d", b"4"), (b"e", b"5")])
        with pytest.raises(duramen.LogDamaged, match=f"has applied {last}"):
            table.update(b"n", add=1)
        other = database.create_table("other", partitions=1)
        assert isinstance(other.put(b"a", b"1"), Done), "the other tables go on"
    shutil.rmtree(folder / "index")
    with duramen.open(folder) as database:
        table = database.table("flights")
        assert table.put(b"c", b"3").offset == last, "who removes the index accepts the loss"
        assert table.get_many([b"a", b"b", b"c"]) == [b"1", None, b"3"]
