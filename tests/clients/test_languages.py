"""The example programs of `examples/clients`, built from the protos and run against three nodes, one of them killed."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.clients.programs import EXAMPLES, LANGUAGES, Language, built
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import patience_s

import duramen

pytestmark = [pytest.mark.languages, pytest.mark.timeout(600)]

LINES_MAX = 80
ROWS = 200
KILLED_AT = "put row050"
RUN_SECONDS_MAX = 120.0


@contextmanager
def running(language: Language, servers: list[str], errors: Path) -> Iterator[subprocess.Popen[str]]:
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [*language.run, *servers], cwd=language.folder, stdout=subprocess.PIPE, stderr=stderr, text=True
        )
    too_long = threading.Timer(RUN_SECONDS_MAX, process.kill)
    too_long.start()
    try:
        yield process
    finally:
        too_long.cancel()
        process.kill()
        process.communicate()


@pytest.mark.parametrize("name", LANGUAGES)
def test_a_program_and_a_node_that_is_killed(name: str, three_nodes: ClusterProcess, tmp_path: Path) -> None:
    language = built(name)
    nodes = ["n1", "n2", "n3"]
    servers = [f"127.0.0.1:{three_nodes.children[node]['port']}" for node in nodes]
    lines: list[str] = []
    with running(language, servers, tmp_path / "errors") as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if lines[-1] == KILLED_AT:
                three_nodes.kill9("n1")
        code = process.wait(patience_s(60))
    assert code == 0, (tmp_path / "errors").read_text()[-4000:]
    rows = [b"row%03d" % number for number in range(ROWS)]
    assert lines == [
        "get Norway true",
        "refused condition_failed true",
        "watch Oslo Norway",
        *(f"put {row.decode()}" for row in rows),
        f"scan {ROWS}",
    ]
    with three_nodes.connect() as database:
        assert list(database.table("cities").scan(level="strong")) == [
            (b"Oslo", b"Norway"),
            *((row, row) for row in rows),
        ]
        database.drop_table("cities")
        with pytest.raises(duramen.TableNotFound):
            database.table("cities").get(b"Oslo")


@pytest.mark.parametrize("file", ["go/main.go", "java/src/main/java/Cities.java", "node/cities.js"])
def test_a_program_is_short(file: str) -> None:
    assert len((EXAMPLES / file).read_text().splitlines()) <= LINES_MAX
