"""The lines about gRPC in README.md and docs/GRPC.md, run as a user types them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import ServerProcess
from kit.clients.programs import ROOT, go_tool, run_checked
from kit.flight_rows import FLIGHT_SCHEMA
from kit.warm.warm_process import run_warm

import duramen

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.1"
ADDRESS = "localhost:7070"


@pytest.fixture(scope="session")
def grpcurl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go_tool(GRPCURL, tmp_path_factory.mktemp("go"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path / "data", log=tmp_path / "server.log")
    yield running
    running.close()


def _lines(page: str) -> list[str]:
    """What is typed, without the prompt."""
    return re.findall(r"^\$ (grpcurl .*)$", (ROOT / page).read_text(), re.MULTILINE)


def _plain(page: str) -> list[str]:
    return [line for line in _lines(page) if "-plaintext" in line]


@pytest.mark.languages
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", ["README.md", "docs/GRPC.md"])
def test_as_a_user_types_it(page: str, grpcurl: Path, server: ServerProcess, tmp_path: Path) -> None:
    lines = _plain(page)
    assert len(lines) >= 3
    path = f"{grpcurl.parent}:/usr/bin:/bin"
    with duramen.connect(server.target) as database:  # of which the page says how the command line makes it
        database.create_table("prices", history="30d", if_missing=True).put(b"JFK", b"7")
    said = [run_checked(["bash", "-c", line.replace(ADDRESS, server.target)], tmp_path, PATH=path) for line in lines]
    replies = {line.rpartition("/")[2]: text for line, text in zip(lines, said, strict=True)}
    assert json.loads(replies["Get"])["value"] == "Tm9yd2F5"
    condition = '{"table": "cities", "key": "T3Nsbw==", "if_absent": true}'
    refused = f"grpcurl -plaintext -d '{condition}' {server.target} duramen.v1.KV/Put"
    done = subprocess.run(["bash", "-c", refused], env={"PATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "FailedPrecondition" in done.stderr
    assert "condition_failed" in done.stderr


@pytest.mark.languages
@pytest.mark.timeout(600)
def test_a_call_with_tls_and_a_token(grpcurl: Path, tmp_path: Path) -> None:
    (line,) = (line for line in _lines("docs/GRPC.md") if "-plaintext" not in line)
    certs = CertsAtHand(tmp_path, hosts=("localhost", "127.0.0.1"))
    first = ["--certs", str(certs.path), "--first-user", "alice", "--token-file", str(tmp_path / "alice.token")]
    secured = ServerProcess(tmp_path / "data", log=tmp_path / "server.log", arguments=first)
    try:
        path = f"{grpcurl.parent}:/usr/bin:/bin"
        said = run_checked(["bash", "-c", line.replace(ADDRESS, secured.target)], tmp_path, PATH=path)
        assert json.loads(said)["user"] == "alice"
    finally:
        secured.close()


def test_the_pages_python_runs(server: ServerProcess) -> None:
    programs = re.findall(r"```python\n(.*?)```", (ROOT / "docs/GRPC.md").read_text(), re.DOTALL)
    with server.connect() as database:
        database.create_table("cities")
        database.create_table("flights", row=FLIGHT_SCHEMA, key=("carrier", "flight"))
    said = []
    for program in programs:
        done = run_warm([sys.executable, "-c", program.replace(ADDRESS, server.target)], text=True)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    row = b'{"carrier":"UA","flight":1545,"tailnum":"N14228","dep_delay":2.0}'
    assert said == ["b'Switzerland' True\n", f"by the key [{row!r}]\n"]


GO_MODULES = ("examples/clients/go/go.mod", "tests/clients/go_users/go.mod")


@pytest.mark.parametrize("module", GO_MODULES)
def test_the_programs_in_go_have_a_grpc_that_has_what_the_page_shows(module: str) -> None:
    page, pinned = (ROOT / "docs/GRPC.md").read_text(), (ROOT / module).read_text()
    assert "grpc.NewClient(" in page
    [needed] = re.findall(r"`grpc.NewClient` needs gRPC for Go 1\.(\d+) or newer", page)
    [has] = re.findall(r"^\tgoogle\.golang\.org/grpc v1\.(\d+)\.", pinned, re.MULTILINE)
    assert int(has) >= int(needed)
    assert re.findall(r"^go (.*)$", pinned, re.MULTILINE) == ["1.19"], "what the page says of Go, and Debian 12 has"
