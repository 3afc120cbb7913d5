"""The public protos: in one folder, importable by themselves, clean by `buf lint`, and in the wheel's list."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from kit.clients.programs import ROOT, need, run_checked

BUF = "@bufbuild/buf@1.47.2"
PROTOS = ROOT / "protos"


def test_each_stands_alone(tmp_path: Path) -> None:
    files = sorted(PROTOS.glob("duramen/v1/*.proto"))
    assert [file.name for file in files] == ["kv.proto", "tables.proto", "users.proto"]
    for file in files:
        command = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(PROTOS), f"--python_out={tmp_path}", str(file)]
        run_checked(command, tmp_path)


def test_the_wheel_takes_them() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["force-include"] == {"protos": "duramen/protos"}
    assert "protos" in build["sdist"]["include"]


@pytest.mark.languages
@pytest.mark.timeout(600)
def test_buf_lint_finds_nothing(tmp_path: Path) -> None:
    need(["npm", "node"])
    run_checked(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(tmp_path), BUF], tmp_path)
    assert run_checked([str(tmp_path / "node_modules" / ".bin" / "buf"), "lint"], PROTOS) == ""
