"""What the command line makes of arguments before it asks a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from duramen.cli.admin.arguments import absolute_url

pytestmark = pytest.mark.embedded_log_only


def test_a_relative_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_url("bulk/ships-1") == f"{tmp_path}/bulk/ships-1"
    assert absolute_url("../bulk") == f"{tmp_path.parent}/bulk"


@pytest.mark.parametrize("url", ["/bulk/1", "file:///bulk/1", "s3://bulk/1", "empty:", "empty:12/530"])
def test_other_places_stay(url: str) -> None:
    assert absolute_url(url) == url
