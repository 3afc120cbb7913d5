"""`duramen slow` against a real server, and the same document over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s

from duramen import connect


def test_a_table_a_document_and_http(tmp_path: Path) -> None:
    arguments = ["--slow-call-ms", "1", "--http-port", "0", "--log-level", "info", "--log-format", "json"]
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=arguments)
    try:
        done = run_here("slow", at=server.target)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
        with connect(server.target) as database:
            database.create_table("flights", partitions=2)
        done = run_here("slow", "--count", "5", at=server.target)
        assert done.returncode == 0, done.stderr
        assert "Tables/Create" in done.stdout
        (found,) = lines(run_here("slow", "--json", at=server.target))
        assert (found["format"], found["threshold_ms"]) == (1, 1)
        call = next(each for each in found["calls"] if each["call"] == "Tables/Create")
        assert (call["table"], call["outcome"], call["protocol"]) == ("flights", "done", "grpc")
        with urlopen(f"http://127.0.0.1:{server.announcement['http_port']}/slow", timeout=patience_s(30)) as reply:
            assert call in json.load(reply)["calls"]
        logged = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines() if '"slow call"' in line]
        assert "flights" in {each["table"] for each in logged if each["event"] == "slow call"}
    finally:
        assert server.stop()[0] == 0
        server.close()


def test_nobody_answers() -> None:
    done = run_here("slow", at="127.0.0.1:1")
    assert done.returncode == 5
