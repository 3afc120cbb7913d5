"""Makes the helpers of this folder importable from the folders below it; the files of its tests are in memory."""

from __future__ import annotations

from kit.storage.memory_folders import (
    pytest_fixture_post_finalizer,
    pytest_fixture_setup,
    tmp_path,
    tmp_path_factory,
)

__all__ = ["pytest_fixture_post_finalizer", "pytest_fixture_setup", "tmp_path", "tmp_path_factory"]
