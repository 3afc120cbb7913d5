"""The commands of the section on certificates in docs/OPERATIONS.md, in the order of the page, in an empty folder."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from kit.client.command_line import run_here
from kit.pages.markdown import TOP, blocks_of

from duramen.certificates.identity import identity_of
from duramen.certificates.pair import read_pair

pytestmark = pytest.mark.embedded_log_only

PAGE = TOP / "docs" / "OPERATIONS.md"


def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    commands = [
        shlex.split(line, comments=True)
        for block in blocks_of(PAGE)
        if block.heading == "Certificates"
        for line in block.text.splitlines()
    ]
    verbs = {tuple(each[1:3]) for each in commands}
    assert verbs == {("cert", verb) for verb in ("init", "issue", "rotate", "show")}
    for program, *words in commands:
        assert program == "duramen"
        done = run_here(*words)
        assert done.returncode == 0, f"{words}: {done.stderr}"
    for name, kind in (("n1", "server"), ("alice", "user")):
        pair = read_pair(tmp_path / "certs" / f"{name}.crt", tmp_path / "certs" / f"{name}.key")
        assert identity_of(pair.certificate) == (kind, name)
    shown = run_here("cert", "show").stdout
    assert "warning" not in shown, "the change of the CA is complete"
