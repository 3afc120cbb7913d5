"""The example programs in other languages: how each is built, and how it runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from kit.deadlines import patience_s

__all__ = ["EXAMPLES", "LANGUAGES", "ROOT", "Language", "built", "go_tool", "need", "run_checked"]

ROOT: Final = Path(__file__).resolve().parents[3]
EXAMPLES: Final = ROOT / "examples" / "clients"

# The first build fetches modules; the later ones take seconds.
BUILD_SECONDS_MAX: Final = 600

# The protoc that generates our own code does it for Go too.
PROTOC: Final = f"{sys.executable} -m grpc_tools.protoc"


@dataclass(frozen=True, slots=True)
class Language:
    """One example program."""

    name: str
    tools: Sequence[str]
    """Programs that must be installed."""
    build: Sequence[Sequence[str]]
    """Commands, in its folder."""
    run: Sequence[str]
    """The program; servers follow."""

    @property
    def folder(self) -> Path:
        return EXAMPLES / self.name


LANGUAGES: Final = {
    language.name: language
    for language in (
        Language("go", ["go"], [["./generate"], ["go", "build", "-o", "bin/cities", "."]], ["./bin/cities"]),
        Language(
            "java",
            ["java", "mvn"],
            [["mvn", "-q", "-B", "compile"]],
            ["java", "-cp", "target/classes:target/dependency/*", "Cities"],
        ),
        Language("node", ["node", "npm"], [["npm", "ci", "--no-audit", "--no-fund"]], ["node", "cities.js"]),
    )
}


def run_checked(command: Sequence[str], folder: Path, **environment: str) -> str:
    """Run a command to its end; its output. Fails with what it said."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=patience_s(BUILD_SECONDS_MAX),
        check=False,
    )
    assert done.returncode == 0, f"{command} in {folder} ended with {done.returncode}:\n{done.stdout[-4000:]}"
    return done.stdout


def need(tools: Sequence[str]) -> None:
    """Skip, visibly, where a tool is not installed."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: apt-get install golang default-jdk maven nodejs npm")


def built(name: str) -> Language:
    """The program, built."""
    language = LANGUAGES[name]
    need(language.tools)
    for command in language.build:
        run_checked(command, language.folder, PROTOC=PROTOC)
    return language


def go_tool(package: str, folder: Path) -> Path:
    """A Go program of others, fetched through the module proxy and built into `folder`."""
    need(["go"])
    run_checked(["go", "install", package], folder, GOBIN=str(folder))
    return folder / package.rpartition("@")[0].rpartition("/")[2]
