"""The folder that becomes a replica's when its own is missing."""

from __future__ import annotations

from pathlib import Path

from serving_tier.names import version_folder
from serving_tier.replica.version_folders import promote, version_folders


def test_a_replica_without_any_folder_has_nothing_to_promote(tmp_path: Path) -> None:
    assert not promote(tmp_path / "table" / "3")
    (tmp_path / "table").mkdir()
    version_folder(tmp_path / "table" / "4", 2).mkdir()
    assert not promote(tmp_path / "table" / "3"), "another partition's version is not its own"


def test_a_version_takes_the_place_of_a_missing_folder_and_of_no_other(tmp_path: Path) -> None:
    own = tmp_path / "3"
    for number in (2, 5):
        version_folder(own, number).mkdir()
    assert promote(own)
    assert (own.is_dir(), version_folders(own)) == (True, [version_folder(own, 5)])
    assert promote(own)
    assert version_folders(own) == [version_folder(own, 5)], "a folder that is there stays"
