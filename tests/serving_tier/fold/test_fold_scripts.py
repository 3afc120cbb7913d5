from __future__ import annotations

from pathlib import Path

import pytest
from kit.golden import check_script
from kit.index.fold_script import play
from kit.log.stored_log import PARTITION, TABLE

from log_tier.model.identifiers import PartitionId
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.index.memory_index import MemoryIndex

SCRIPTS = sorted((Path(__file__).parent / "golden" / "fold").glob("*.txt"))


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 8


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path, tmp_path: Path) -> None:
    text = script.read_text(encoding="utf-8")
    in_memory = play(text, MemoryIndex())
    index = LmdbIndex.open(tmp_path / "index", partition=PartitionId(TABLE, PARTITION))
    on_disk = play(text, index)
    index.close()
    assert in_memory == on_disk
    check_script(script, in_memory)
