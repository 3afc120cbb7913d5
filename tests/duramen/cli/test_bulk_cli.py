"""`duramen bulk`, `repush` and `export`, typed as an operator types them, with a real Spark.

A command that starts a Spark of its own takes some 20 s of processor time. One of each kind does. What Spark then says
of its input needs no other one: those commands run in this process, on its session.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess, run_duramen

import duramen
from spark_bulk import spark_session
from spark_bulk.runtime.spark_failures import one_line_failures
from spark_bulk.spark_session import java_problem

pytestmark = [pytest.mark.spark, pytest.mark.embedded_log_only, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    if reason := java_problem():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("bulk")
    process = ServerProcess(folder / "data", log=folder / "server.log")
    with duramen.connect(process.target) as database:
        database.create_table("flights", partitions=2).put(b"before", b"{}")
        database.create_table("wide", partitions=5)
    yield process
    process.close()


def run(server: ServerProcess, *arguments: str) -> list[dict[str, Any]]:
    """A command in a process of its own: what it printed."""
    return lines(run_duramen(*arguments, "--json", at=server.target, timeout=200))


def refusal(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The message of a command that was refused: the one line that it printed."""
    assert done.returncode == code, done.stdout + done.stderr
    (line,) = done.stderr.splitlines()
    message: str = json.loads(line)["message"]
    assert "\n" not in message
    return message


def test_from_a_file_into_service_and_out_again(server: ServerProcess, tmp_path: Path) -> None:
    rows = [{"carrier": "UA", "flight": n % 50, "day": n // 50, "late": n % 7} for n in range(200)]
    (tmp_path / "flights.json").write_text("\n".join(map(json.dumps, rows)))
    url = f"file://{tmp_path}/v2"
    built, *_ = run(
        server,
        *("bulk", "build", "flights", f"{tmp_path}/flights.json", "--format", "json", "--url", url, "--swap"),
        *("--key", "carrier", "--key", "flight", "--duplicates", "last", "--order-by", "day"),
    )
    assert (built["rows"], built["dropped"], built["keys"]) == (200, 150, 50)
    with duramen.connect(server.target) as database:
        table = database.table("flights")
        assert json.loads(table.get(b"UA/7", level="strong") or b"") == {
            "carrier": "UA",
            "flight": 7,
            "day": 3,
            "late": 157 % 7,
        }
        assert table.get(b"before") is None
        table.put(b"UA/7", b"later")
    assert [each["state"] for each in run(server, "bulk", "versions", "flights")] == ["kept", "live"]

    (exported,) = run(server, "export", "flights", f"{tmp_path}/export", "--text")
    assert exported["rows"] == 50
    audited = run(server, "audit", "data", "flights", "--export", f"{tmp_path}/export")
    assert [(each["kind"], each["verdict"]) for each in audited] == [("table", "equal")] * 2
    assert sum(each["held"]["rows"] for each in audited) == 50
    run(server, "put", "flights", "UA/8", "again")
    (changes,) = run(server, "export", "flights", f"{tmp_path}/export", "--text", "--changes")
    assert (changes["rows"], changes["files"]) == (1, 1)
    audited = run(server, "audit", "data", "flights", "--export", f"{tmp_path}/export")
    assert [(each["kind"], each["verdict"]) for each in audited[:2]] == [("changes", "equal")] * 2
    # A replica is further on in one partition, and the log does not lead there: it has no files of the bulk build.
    assert sorted(each["verdict"] for each in audited[2:]) == ["equal", "not compared"]

    (repushed,) = run(server, "repush", "flights", "--url", f"file://{tmp_path}/wide", "--into", "wide")
    assert (repushed["keys"], len(repushed["offsets"])) == (50, 5)
    run(server, "bulk", "stage", "wide", f"file://{tmp_path}/wide")
    run(server, "bulk", "swap", "wide")
    with duramen.connect(server.target) as database:
        assert dict(database.table("wide").scan(level="strong")) == dict(database.table("flights").scan(level="strong"))
    run(server, "bulk", "rollback", "flights")
    with duramen.connect(server.target) as database:
        assert dict(database.table("flights").scan(level="strong")) == {
            b"before": b"{}",
            b"UA/7": b"later",
            b"UA/8": b"again",
        }


def wrong_build(folder: Path, *wrong: str) -> list[str]:
    return ["bulk", "build", "flights", *wrong, "--url", f"file://{folder}/v", "--key", "carrier", "--json"]


def test_input_that_spark_does_not_find(server: ServerProcess, tmp_path: Path) -> None:
    done = run_duramen(*wrong_build(tmp_path, "nowhere.parquet"), at=server.target, timeout=200)
    said = r"Spark says: Path does not exist: .*nowhere\.parquet\. \(PATH_NOT_FOUND\)$"
    assert re.match(said, refusal(done, 2)), done
    assert not (tmp_path / "v").exists()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (("/etc/hosts",), r"Spark says: Encountered error while reading file .*/etc/hosts"),
        (("/etc/hosts", "--format", "nonsense"), r"Spark says: Failed to find the data source: nonsense"),
        (("/etc/hosts", "--format", "text", "--sql", "selec 1"), r"Spark says: Syntax error at or near 'selec'\. \("),
        (("/etc/hosts", "--format", "text"), r"the data has no column 'carrier' for the key; its columns are: value$"),
    ],
)
def test_input_that_spark_refuses(
    server: ServerProcess, spark: Any, tmp_path: Path, wrong: tuple[str, ...], said: str
) -> None:
    @contextmanager
    def this_session(app: str, *, master: str | None = None, progress: bool = False) -> Iterator[Any]:
        with one_line_failures():
            yield spark

    with mock.patch.object(spark_session, "local_session", this_session):
        done = run_here(*wrong_build(tmp_path, *wrong), at=server.target)
    assert re.match(said, refusal(done, 2)), done
    assert not (tmp_path / "v").exists()


def test_what_cannot_be_is_said_before_spark_starts(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    for command in (
        ("bulk", "build", "ships", "x", "--url", f"{tmp_path}/v", "--key", "k"),
        ("export", "ships", f"{tmp_path}/v"),
        ("repush", "ships", "--url", f"{tmp_path}/v"),
    ):
        assert "ships" in refusal(run_here(*command, "--json", at=server.target), 3)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("export", "flights", "folder", "--from", "x"), "--from and --to are for --changes"),
        (("repush", "flights", "--url", "v9", "--function", "nowhere"), "--function takes MODULE:NAME"),
        (("repush", "flights", "--url", "v9", "--function", "nowhere:f"), "there is no function nowhere:f"),
    ],
)
def test_what_makes_no_sense_is_said_before_spark_starts(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], said: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert said in refusal(run_here(*command, "--json", at=server.target), 2)
