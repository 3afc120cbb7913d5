"""A plain `pip install duramen`: servers, clients and commands work without any extra, and what needs one names it.

They run in an environment that has the core dependencies alone, as the metadata of the package name them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import ServerProcess, read_line
from kit.deadlines import patience_s
from kit.http import http_get
from kit.plain_install import core_distributions, plain_install
from kit.resp.raw_client import Raw, Status

pytestmark = pytest.mark.embedded_log_only

TESTS = Path(__file__).resolve().parents[1]

# Commands that are run one after another in one process. The last line is JSON: code, output and error of each.
_COMMANDS = """
import json, sys
from kit.client.command_line import run_here
done = [run_here(*each, at=sys.argv[2]) for each in json.loads(sys.argv[1])]
print(json.dumps([(each.returncode, each.stdout, each.stderr) for each in done]))
"""

_NOT_HERE = """
import importlib, json, sys
missing = []
for name in ("confluent_kafka", "opentelemetry", "pandas", "pyarrow", "pyspark", "pytest", "redis", "s3fs"):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        missing.append(name)
print(json.dumps(missing))
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(plain_install(tmp_path_factory.mktemp("plain") / "environment"))


@pytest.fixture(scope="module")
def plain_server(python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("server")
    running = ServerProcess(
        folder / "data",
        log=folder / "server.log",
        arguments=["--http-port", "0", "--resp-port", "0", "--allow-location", "s3://bucket"],
        python=python,
    )
    yield running
    running.close()


def answers(python: str, program: str, *arguments: str) -> list[Any]:
    """What a program prints as its last line."""
    done = subprocess.run(
        [python, "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def test_the_core_is_what_the_metadata_say(python: str) -> None:
    core = core_distributions()
    assert {"duramen", "grpcio", "lmdb", "cffi"} <= core, "with what they need themselves"
    assert not core & {"confluent-kafka", "opentelemetry-sdk", "pyspark", "pyarrow", "pytest", "s3fs"}
    assert len(answers(python, _NOT_HERE)) == 8, "some extra is here"


def commands_work(python: str, at: str, folder: Path) -> None:
    """Each command of a plain install, against a server."""
    (folder / "rows.csv").write_text("id,size\na,1\nb,2\n")
    (folder / "row.avsc").write_text(
        '{"type": "record", "name": "Row", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}'
    )
    commands: Sequence[Sequence[str]] = [
        ("table", "create", "flights", "-p", "2"),
        ("put", "flights", "UA1545", "departed"),
        ("get", "flights", "UA1545"),
        ("update", "flights", "seats", "--add", "-1"),
        ("scan", "flights", "--keys"),
        ("load", "flights", str(folder / "rows.csv"), "-k", "id"),
        ("table", "create", "rows", "--schema", str(folder / "row.avsc"), "--key", "id"),
        ("put", "rows", '{"id": "a", "n": 5}'),
        ("get", "rows", "a"),
        ("health",),
        ("status", "--json"),
        ("top", "--count", "1"),
        ("slow",),
        ("admin", "nodes"),
        ("audit", "data", "flights"),
        ("check", "--seconds", "0.2"),
        ("cert", "init", "--dir", str(folder / "ca")),
    ]
    done = answers(python, _COMMANDS, json.dumps(commands), at)
    for command, (code, output, error) in zip(commands, done, strict=True):
        assert int(code) == 0, f"{command}: {output}{error}"
    shown = {" ".join(command): output for command, (_, output, _) in zip(commands, done, strict=True)}
    assert shown["get flights UA1545"] == "departed\n"
    assert json.loads(shown["get rows a"]) == {"id": "a", "n": 5}


async def http_answers(port: int) -> None:
    """The paths of the HTTP port, with those of the registry and the console."""
    for path, content in [
        ("/readyz", b""),
        ("/metrics", b"duramen_ready 1.0"),
        ("/status", b"{"),
        ("/subjects", b"rows-value"),
        ("/", b"<html"),
    ]:
        status, _, body = await http_get(port, path)
        assert status == 200, (path, status, body)
        assert content in body, (path, body[:300])


async def test_a_server_and_every_command(python: str, plain_server: ServerProcess, tmp_path: Path) -> None:
    commands_work(python, plain_server.target, tmp_path)
    await http_answers(plain_server.announcement["http_port"])
    redis = Raw(("127.0.0.1", plain_server.announcement["resp_port"]))
    assert redis.call("SET", "k", "v") == Status("OK")
    assert redis.call("GET", "k") == b"v"
    redis.socket.close()
    code, events = plain_server.stop()
    assert code == 0, events
    plain_server.start()
    assert answers(python, _COMMANDS, '[["get", "flights", "UA1545"]]', plain_server.target)[0][1] == "departed\n"


def test_a_cluster_with_certificates_and_users(python: str, tmp_path: Path) -> None:
    certs, token = tmp_path / "certs", tmp_path / "admin.token"
    made = CertsAtHand(tmp_path, hosts=("localhost", "127.0.0.1"))
    command = f"-m duramen up --nodes 1 --port 0 --http-port 0 --resp-port 0 --json --data {tmp_path / 'data'}"
    command += f" --certs {certs} --first-user admin --token-file {token}"
    with (
        (tmp_path / "cluster.log").open("wb") as log,
        subprocess.Popen([python, *command.split()], stdout=subprocess.PIPE, stderr=log) as cluster,
    ):
        try:
            while (line := read_line(cluster, 60)) and json.loads(line)["event"] != "started":
                pass
            assert line, (tmp_path / "cluster.log").read_text()
            words = ("--token-file", str(token)), ("--ca", str(made.ca))
            commands = [
                (*words[0], *each, *words[1])
                for each in (("table", "create", "t"), ("put", "t", "k", "v"), ("whoami",))
            ]
            done = answers(python, _COMMANDS, json.dumps(commands), f"duramens://localhost:{json.loads(line)['port']}")
            assert [code for code, _, _ in done] == [0, 0, 0], done
        finally:
            cluster.send_signal(signal.SIGINT)
            cluster.communicate(timeout=patience_s(60))
        assert cluster.returncode == 0, (tmp_path / "cluster.log").read_text()


def test_what_needs_an_extra_names_it(python: str, plain_server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    extras = {
        "up --port 0 --data {folder}/kafka --log kafka://127.0.0.1:1": "kafka",
        "up --port 0 --data {folder}/traced --traces otlp": "otel",
        "load flights {folder}/rows.parquet -k id": "parquet",
        "bulk build flights {folder}/rows.parquet -k id --url file://{folder}/bulk": "spark",
        "bulk stage flights s3://bucket/built": "s3",
        "repush flights --url file://{folder}/repushed": "spark",
        "export flights {folder}/exported": "spark",
        "audit data flights --export {folder}/exported": "spark",
    }
    commands = [command.format(folder=tmp_path).split() for command in extras]
    done = answers(python, _COMMANDS, json.dumps(commands), plain_server.target)
    for (command, extra), (code, output, error) in zip(extras.items(), done, strict=True):
        assert int(code) != 0, f"{command}: {output}{error}"
        assert error.startswith("error: "), f"{command}: {error}"
        assert f"pip install 'duramen[{extra}]'" in error, f"{command}: the error does not say what to install: {error}"
