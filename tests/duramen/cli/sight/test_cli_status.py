"""`duramen status` against a real server."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s

from duramen.blocking import Database
from duramen.cli.admin.list import _of_the_log
from duramen.cli.sight.status import _lines


def test_three_lines_and_one_document(server: ServerProcess, database: Database, table_name: str) -> None:
    table = database.create_table(table_name, partitions=2)
    table.get(b"k", after=table.put(b"k", b"v").token)
    done = run_here("status", at=server.target)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    assert "partitions ready" in done.stdout.splitlines()[2]
    done = run_here("status", "--json", at=server.target)
    (found,) = lines(done)
    assert (found["role"], found["format"], found["ready"]) == ("single", 1, True)
    assert {each["partition"] for each in found["partitions"] if each["table"] == table_name} == {0, 1}


def test_health_over_http(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--http-port", "0"])
    try:
        with urlopen(f"http://127.0.0.1:{server.announcement['http_port']}/status", timeout=patience_s(30)) as reply:
            found = json.load(reply)
        assert (found["pid"], found["role"]) == (server.process.pid, "single")
    finally:
        assert server.stop()[0] == 0
        server.close()


def test_nobody_answers() -> None:
    done = run_here("status", at="127.0.0.1:1")
    assert done.returncode == 5
    assert "no server answers" in done.stderr or "127.0.0.1:1" in done.stderr


def test_what_is_wrong_and_what_to_do_first() -> None:
    facts = {
        "name": "n1", "role": "node", "ready": False, "first": "wait", "nodes": [], "disk": None, "memory_bytes": None,
        "uptime_s": 65.0, "partitions": [{"state": "stopped"}, {"state": "ready"}],
        "troubles": [{"what": "orders/0 stopped here"}, {"what": "another"}],
    }  # fmt: skip
    assert _lines(facts) == [
        "NOT READY: orders/0 stopped here (and 1 more)",
        "do first  wait",
        "node n1  1 of 2 partitions ready, up 1 min 5 s",
    ]


def test_the_logs_server_below_the_nodes() -> None:
    server = {"address": "log:7071", "alive": True, "reason": "", "clock_skew_s": 1, "stopped": None}
    known = {"disk_free_bytes": 1 << 30, "disk_full_bytes": 4 << 30}
    assert list(_of_the_log({"log_server": None})) == [], "as of a release that does not say where the log is"
    assert list(_of_the_log({"log_server": None, "log_place": "here"})) == []
    assert list(_of_the_log({"log_server": None, "log_place": "kafka"})) == [
        "the log is Kafka's: the clocks and disks of its brokers are not known here"
    ]
    answers = "the log's server at log:7071 answers, 1.0 GiB of 4.0 GiB disk free"
    assert list(_of_the_log({"log_server": {**server, **known}})) == [answers]
    assert list(_of_the_log({"log_server": {**server, **known, "clock_skew_s": -90, "stopped": "EIO"}})) == [
        answers,
        "the log acknowledges nothing more: EIO",
        "the clock of the log's server is off by -90 s",
    ]
    silent = {**server, "alive": False, "reason": "no answer", "disk_free_bytes": None, "disk_full_bytes": None}
    assert list(_of_the_log({"log_server": silent})) == ["the log's server at log:7071 does not answer: no answer"]
