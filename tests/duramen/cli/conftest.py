"""Databases of commands are in memory: many tests copy a log whole, with its journals."""

from __future__ import annotations

from kit.storage.memory_folders import (
    pytest_fixture_post_finalizer,
    pytest_fixture_setup,
    tmp_path,
    tmp_path_factory,
)

__all__ = ["pytest_fixture_post_finalizer", "pytest_fixture_setup", "tmp_path", "tmp_path_factory"]
