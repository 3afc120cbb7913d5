"""Large files of a Spark worker lie where Spark wants them."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_bulk.runtime.work_folder import work_folder


def test_the_work_lies_where_spark_wants_large_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'gone'},{tmp_path}")
    assert work_folder() == tmp_path
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "")
    assert work_folder().is_dir()
