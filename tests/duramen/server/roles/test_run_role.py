"""How a role is run: with assertions, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kit.deadlines import patience_s

pytestmark = pytest.mark.embedded_log_only


@pytest.mark.parametrize("how", ["-O", "PYTHONOPTIMIZE"])
@pytest.mark.parametrize("role", [("up",), ("serve", "log")], ids=" ".join)
def test_no_server_starts_without_assertions(tmp_path: Path, how: str, role: tuple[str, ...]) -> None:
    options, environment = (["-O"], {}) if how == "-O" else ([], {"PYTHONOPTIMIZE": "1"})
    done = subprocess.run(
        [sys.executable, *options, "-m", "duramen", *role, "--data", str(tmp_path / "data"), "--port", "0"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=False,
    )
    assert done.returncode == 2, done
    assert "runs without assertions (-O, or PYTHONOPTIMIZE is set)" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert "never awaited" not in done.stderr
    assert not (tmp_path / "data").exists()
