"""A folder with another program's files is refused before anything is written, by each way that a server opens one."""

from __future__ import annotations

from pathlib import Path

import pytest

from duramen.server.wiring.foreign_names import DATA_NAMES, refuse_foreign
from duramen.server.wiring.node_folder import NodeFolder
from duramen.server.wiring.single_machine import open_local_data
from log_tier.model.errors import DiskFailed, ForeignFolder


def test_a_missing_an_empty_and_an_own_folder_are_fine(tmp_path: Path) -> None:
    refuse_foreign(tmp_path / "missing", DATA_NAMES)
    refuse_foreign(tmp_path, DATA_NAMES)
    for name in DATA_NAMES:
        (tmp_path / name).touch()
    refuse_foreign(tmp_path, DATA_NAMES)
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["notes"], "holds notes, which Duramen did not make"),
        (["d", "b", "index", "c"], "holds b, c, d, which"),
        (["d", "b", "c", "a"], "holds a, b, c …, which"),
    ],
)
def test_names_that_are_not_ours_are_refused(tmp_path: Path, names: list[str], said: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(ForeignFolder, match=said):
        refuse_foreign(tmp_path, {"index"})


def test_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(ForeignFolder, match="is a file, the data folder must be a folder"):
        refuse_foreign(file, DATA_NAMES)
    with pytest.raises(ForeignFolder, match="is a file"):
        NodeFolder.open(file, node_id="n1")
    with pytest.raises(ForeignFolder, match="is below a file"):
        NodeFolder.open(file / "node", node_id="n1")
    assert file.read_text() == "x"


def test_only_a_folder_without_rights_is_called_read_only(tmp_path: Path) -> None:
    (tmp_path / "node.lock").mkdir()
    with pytest.raises(DiskFailed, match="Is a directory"):
        NodeFolder.open(tmp_path, node_id="n1")


async def test_a_database_names_what_the_disk_refused(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match="File name too long"):
        await open_local_data(tmp_path / ("d" * 300))


def test_a_node_refuses_names_that_no_node_makes(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(ForeignFolder, match="holds photos, which Duramen did not make"):
        NodeFolder.open(tmp_path, node_id="n1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["photos"]
