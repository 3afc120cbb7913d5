"""pyright accepts what it should of the typed face of tables, and refuses what it should: `typed_face.py`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from kit.deadlines import patience_s

FACE: Final = Path(__file__).parent / "typed_face.py"
TOP: Final = Path(__file__).parents[2]
PYRIGHT: Final = TOP / ".venv" / "tools" / "bin" / "pyright"
RULES: Final = {
    "typeCheckingMode": "strict",
    "enableTypeIgnoreComments": False,  # those are for mypy
    "reportUnnecessaryTypeIgnoreComment": "error",
}


def check_is_here() -> None:
    """The package fetches the checker itself when it is called first."""
    if not PYRIGHT.exists() or shutil.which("node") is None:
        pytest.skip("pyright is not here: it is one of the tools (make audit installs them), and needs node")
    asked = subprocess.run(
        [str(PYRIGHT), "--version"], capture_output=True, text=True, timeout=patience_s(200), cwd=TOP, check=False
    )
    if asked.returncode != 0:
        pytest.skip(f"pyright cannot be fetched through npm: {(asked.stderr or asked.stdout)[-200:]}")


def checked(folder: Path, text: str) -> list[str]:
    """What pyright says of a module of that text: its errors."""
    check_is_here()
    (folder / "pyrightconfig.json").write_text(json.dumps(RULES))
    (folder / "face.py").write_text(text)
    command = [str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, "--project", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=patience_s(120), cwd=TOP, check=False)
    report = json.loads(ended.stdout)
    assert report["summary"]["filesAnalyzed"] == 1, ended.stdout + ended.stderr
    found = [(each["range"]["start"]["line"] + 1, each.get("rule", "")) for each in report["generalDiagnostics"]]
    assert (ended.returncode == 0) == (not found), ended.stderr
    return [f"{line}: {rule}" for line, rule in found]


@pytest.mark.timeout(400)
def test_the_face_is_typed_for_pyright(tmp_path: Path) -> None:
    assert checked(tmp_path, FACE.read_text(encoding="utf-8")) == []


@pytest.mark.timeout(400)
def test_it_would_find_what_is_wrong(tmp_path: Path) -> None:
    text = FACE.read_text(encoding="utf-8")
    wrong = text.replace("assert_type(crossings, RowTable[Crossing])", "assert_type(crossings, RowTable[int])")
    wrong = wrong.replace('crossings.put("UA")  #', 'crossings.put(Crossing("UA", 1))  #')
    assert wrong != text
    rules = [each.partition(": ")[2] for each in checked(tmp_path, wrong)]
    assert sorted(set(rules)) == ["reportAssertTypeFailure", "reportUnnecessaryTypeIgnoreComment"]
