"""The commands against a real server: each once in a process of its own, and all that they do in this one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess, run_duramen
from kit.deadlines import patience_s

from duramen.blocking import Database
from duramen.cli.admin.figures import local_time

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(server: ServerProcess) -> Run:
    def run(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        return run_here(*arguments, at=server.target, **options)

    return run


@pytest.fixture
def table(database: Database, table_name: str) -> str:
    database.create_table(table_name, partitions=2)
    return table_name


@pytest.mark.embedded_log_only
def test_every_command_in_a_process_of_its_own(server: ServerProcess, table_name: str, database: Database) -> None:
    """A fresh start has imported nothing, and what a command leaves running ends with it: nobody else says a word."""

    def run(*arguments: str) -> str:
        done = run_duramen(*arguments, at=server.target, fresh=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    run("table", "create", table_name, "-p", "2")
    assert run("put", table_name, "k", "v") in ("offset 0 of partition 0\n", "offset 0 of partition 1\n")
    assert run("get", table_name, "k", "--level", "strong") == "v\n"
    assert run("scan", table_name, "--level", "strong") == "k\tv\n"
    assert run("watch", table_name, "--from-start", "-n", "1").endswith(" k\tv\n")
    assert run("update", table_name, "n", "--add", "5") == "5\n"
    assert run("delete", table_name, "k").startswith("offset ")
    assert table_name in run("table", "list")
    assert table_name in run("table", "describe", table_name)
    run("table", "set", table_name, "--retention-ms", "604800000")
    run("table", "drop", table_name, "--yes")


class TestTables:
    def test_create_list_describe_drop(self, run: Run, table_name: str) -> None:
        (created,) = lines(run("table", "create", table_name, "-p", "3", "--json"))
        assert (created["table"], created["partitions"]) == (table_name, 3)
        assert created in lines(run("table", "list", "--json"))
        described = lines(run("table", "describe", table_name, "--json"))
        assert [part["partition"] for part in described] == [0, 1, 2]
        assert {part["state"] for part in described} == {"ready"}
        (made_ms,) = {part["made_ms"] for part in described}
        assert table_name in run("table", "list").stdout
        shown = run("table", "describe", table_name).stdout
        assert "0 keys" in shown
        assert f"; made {local_time(made_ms)}\n" in shown
        assert " -1 " not in shown, "an empty partition has no latest offset"

        again = run("table", "create", table_name)
        assert again.returncode == 1
        assert (
            again.stderr == f"error: there is a table '{table_name}' already: choose another name, or drop it first\n"
        )
        assert run("table", "create", table_name, "--if-missing").returncode == 0

        unasked = run("table", "drop", table_name)
        assert unasked.returncode == 2
        assert "say --yes" in unasked.stderr
        assert run("table", "drop", table_name, "--yes").returncode == 0
        assert run("table", "describe", table_name).returncode == 3

    @pytest.mark.embedded_log_only  # a bound by size is refused on Kafka
    def test_the_retention_of_its_log(self, run: Run, table_name: str) -> None:
        made = run("table", "create", table_name, "-p", "2", "--retention-ms", "604800000")
        assert made.returncode == 0, made.stderr
        assert "its log keeps records for 7 d 0 h" in run("table", "describe", table_name).stdout
        changed = run("table", "set", table_name, "--retention-bytes", "10485760")
        assert changed.stdout.splitlines()[0] == (
            f"the log of table {table_name} keeps records for 7 d 0 h and 10.0 MiB of each partition"
        )
        assert f"note: {table_name}/0 keeps everything: no verified snapshot" in changed.stdout
        for part in lines(run("table", "describe", table_name, "--json")):
            assert (part["retention_ms"], part["retention_bytes"]) == (604_800_000, 10_485_760)
        (answer,) = lines(run("table", "set", table_name, "--retention-ms", "0", "--retention-bytes", "0", "--json"))
        assert (answer["retention_ms"], answer["retention_bytes"], answer["notes"]) == (0, 0, [])
        assert "its log keeps everything" in run("table", "describe", table_name).stdout
        unasked = run("table", "set", table_name)
        assert unasked.returncode == 2
        assert "name what is to change" in unasked.stderr

    def test_names_that_cannot_be(self, run: Run) -> None:
        done = run("table", "create", "a/b")
        assert done.returncode == 2
        assert "cannot name a table" in done.stderr


@pytest.mark.embedded_log_only
class TestRecords:
    def test_put_get_delete(self, run: Run, table: str) -> None:
        assert re.fullmatch(r"offset 0 of partition [01]\n", run("put", table, "k", "v").stdout)
        assert run("get", table, "k", "--level", "strong").stdout == "v\n"
        (entry,) = lines(run("get", table, "k", "--level", "strong", "--json"))
        assert entry == {"table": table, "key": "k", "value": "v", "version": 0, "expires_at_ms": None}
        assert run("delete", table, "k", "--if-present").returncode == 0
        gone = run("get", table, "k", "--level", "strong")
        assert (gone.returncode, gone.stdout, gone.stderr) == (3, "", f"error: {table} has no key k\n")
        assert run("delete", table, "k").returncode == 0
        assert run("delete", table, "k", "--if-present").returncode == 4

    def test_several_keys(self, run: Run, table: str, database: Database) -> None:
        database.table(table).put_many({b"a": b"1", b"b": b"two\nlines"})
        done = run("get", table, "a", "nope", "b", "--level", "strong")
        assert done.returncode == 3
        assert done.stdout == "a\t1\nb\tbase64:dHdvCmxpbmVz\n"
        as_json = run("get", table, "a", "nope", "--json")
        assert as_json.returncode == 3
        assert [json.loads(line)["value"] for line in as_json.stdout.splitlines()] == ["1", None]

    def test_bytes(self, run: Run, server: ServerProcess, table: str, database: Database) -> None:
        data = bytes(range(256))
        assert run("put", table, "base64:/w==", "-", stdin=data).returncode == 0
        assert database.table(table).get(b"\xff", level="strong") == data
        assert run("get", table, "base64:/w==", "--level", "strong").stdout.startswith("base64:AAEC")
        command = [sys.executable, "-m", "duramen", "get", table, "base64:/w==", "--raw", "--at", server.target]
        raw = subprocess.run(command, capture_output=True, check=True, timeout=patience_s(60))
        assert raw.stdout == data

    def test_conditions(self, run: Run, table: str) -> None:
        assert run("put", table, "k", "1", "--if-present").returncode == 4
        (done,) = lines(run("put", table, "k", "1", "--if-absent", "--json"))
        refused = run("put", table, "k", "2", "--if-absent", "--json")
        assert refused.returncode == 4
        assert refused.stdout == ""
        problem = json.loads(refused.stderr)
        assert (problem["error"], problem["retryable"]) == ("condition_failed", False)
        assert problem["fields"]["actual"] == done["offset"]
        assert run("put", table, "k", "2", "--if-version", str(done["offset"])).returncode == 0
        both = run("put", table, "k", "2", "--if-absent", "--if-present")
        assert both.returncode == 2
        assert "give one of" in both.stderr

    def test_updates(self, run: Run, table: str) -> None:
        assert run("update", table, "n", "--add", "5").stdout == "5\n"
        assert run("update", table, "n", "--multiply", "-2").stdout == "-10\n"
        assert run("update", table, "n", "--max", "2.5").stdout == "2.5\n"
        assert run("update", table, "n", "--min", "1").stdout == "1\n"
        assert run("update", table, "text", "--append", "abc").stdout == "3\n"
        (done,) = lines(run("update", table, "text", "--append", "d", "--json"))
        assert done["value"] == 4
        assert run("update", table, "text", "--add", "1").returncode == 4
        assert run("update", table, "n", "--add", "one").returncode == 2
        assert run("update", table, "n").returncode == 2
        assert run("update", table, "n", "--add", "1", "--max", "2").returncode == 2

    def test_ttl(self, run: Run, table: str, database: Database) -> None:
        run("put", table, "k", "v", "--ttl", "3600")
        entry = database.table(table).get_entry(b"k", level="strong")
        assert entry is not None
        assert entry.expires_at_ms > 0
        run("put", table, "k", "w", "--keep-ttl")
        again = database.table(table).get_entry(b"k", level="strong")
        assert again is not None
        assert (again.value, again.expires_at_ms) == (b"w", entry.expires_at_ms)

    def test_tokens_from_command_to_command(self, run: Run, table: str, database: Database) -> None:
        token = run("put", table, "k", "v", "--token").stdout.strip()
        assert token.startswith("d1.")
        assert run("get", table, "k", "--after", token).stdout == "v\n"
        assert run("get", table, "k", "--after", token[:-2]).returncode == 2
        other = database.create_table(f"{table}-other", partitions=2)
        foreign = run("get", other.name, "k", "--after", token)
        assert foreign.returncode == 2
        assert "token is of table" in foreign.stderr

    def test_how_old_an_answer_may_be(self, run: Run, table: str) -> None:
        token = run("put", table, "k", "v", "--token").stdout.strip()
        assert run("get", table, "k", "--level", "bounded", "--max-lag", "0.5", "--after", token).stdout == "v\n"
        assert run("scan", table, "--level", "bounded", "--max-lag", "60", "--after", token).stdout == "k\tv\n"
        for wrong in (["--level", "bounded"], ["--max-lag", "1"], ["--level", "strong", "--max-lag", "1"]):
            refused = run("get", table, "k", *wrong)
            assert refused.returncode == 2
            assert "go together" in refused.stderr


@pytest.mark.embedded_log_only
class TestStreams:
    def test_scan(self, run: Run, table: str, database: Database) -> None:
        database.table(table).put_many([(b"a%03d" % n, b"%d" % n) for n in range(500)])
        database.table(table).put(b"b", b"\x00")
        everything = run("scan", table, "--level", "strong").stdout.splitlines()
        assert len(everything) == 501
        assert everything[0] == "a000\t0"
        assert everything[-1] == "b\tbase64:AA=="
        found = lines(run("scan", table, "--prefix", "a0", "--reverse", "--limit", "2", "--json"))
        assert found == [{"key": "a099", "value": "99"}, {"key": "a098", "value": "98"}]
        assert run("scan", table, "--start", "a498", "--end", "b", "--keys").stdout == "a498\na499\n"
        assert run("scan", table, "--prefix", "a", "--start", "b").returncode == 2

    def test_scan_into_a_closed_pipe(self, server: ServerProcess, table: str, database: Database) -> None:
        database.table(table).put_many([(b"key%06d" % n, b"x" * 100) for n in range(5000)])
        command = [sys.executable, "-m", "duramen", "scan", table, "--at", server.target]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.wait(patience_s(30)) == 1
            assert process.stderr.read() == b""

    def test_watch_and_go_on(self, run: Run, table: str, database: Database) -> None:
        opened = database.table(table)
        opened.put(b"{t}a", b"1")
        opened.update(b"{t}b", add=2)
        opened.delete(b"{t}a")
        changes = lines(run("watch", table, "--from-start", "-n", "3", "--json"))
        assert [(change["operation"], change["key"], change["value"]) for change in changes] == [
            ("put", "{t}a", "1"),
            ("add", "{t}b", "2"),
            ("delete", "{t}a", None),
        ]
        rest = lines(run("watch", table, "--after", changes[0]["token"], "-n", "2", "--json"))
        assert rest == changes[1:]
        shown = run("watch", table, "--from-start", "-n", "1").stdout
        assert re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3}  [01]/0 +put +\{t\}a\t1\n", shown)
        assert run("watch", table, "--from-start", "--after", changes[0]["token"]).returncode == 2

    def test_a_watch_ends_with_ctrl_c(self, server: ServerProcess, table: str, database: Database) -> None:
        command = [sys.executable, "-m", "duramen", "watch", table, "--from-start", "--at", server.target]
        database.table(table).put(b"k", b"v")
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().endswith(b"k\tv\n")
            process.send_signal(signal.SIGINT)
            assert process.wait(patience_s(30)) == 130
            assert process.stderr.read() == b""


@pytest.mark.embedded_log_only
class TestErrors:
    def test_no_server(self) -> None:
        done = run_duramen("get", "t", "k", at="127.0.0.1:1", fresh=True)
        assert done.returncode == 5
        assert done.stderr.startswith("error: no Duramen server answers at 127.0.0.1:1 ")
        assert len(done.stderr.splitlines()) == 1
        as_json = json.loads(run_here("get", "t", "k", "--json", "--timeout", "3600", at="127.0.0.1:1").stderr)
        assert (as_json["error"], as_json["retryable"]) == ("disconnected", True)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["frob"], "No such command 'frob'"),
            (["put", "t"], "Missing argument"),
            (["put", "t", "k", "v", "--ttl", "soon"], "--ttl"),
            (["get", "t", "k", "--at", "nowhere"], "is no address: give HOST:PORT"),
            (["get", "t", "k", "--timeout", "0"], "--timeout"),
            (["up", "--port", "70000"], "0 to 65535"),
        ],
    )
    def test_usage(self, arguments: list[str], message: str) -> None:
        done = run_here(*arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("error: ")
        assert message in done.stderr
        as_json = run_here(*arguments, "--json")
        assert message in json.loads(as_json.stderr)["message"]

    def test_unknown_table(self, run: Run) -> None:
        done = run("get", "no-such-table", "k")
        assert done.returncode == 3
        assert "there is no table 'no-such-table'" in done.stderr

    def test_limits(self, run: Run, table: str) -> None:
        assert run("put", table, "", "v").returncode == 2
        assert "511" in run("put", table, "k" * 512, "v").stderr
        huge = run("put", table, "k", "-", stdin=b"x" * (4 * 1024 * 1024 + 1))
        assert huge.returncode == 2
        assert "4194304" in huge.stderr


@pytest.mark.embedded_log_only
class TestHelp:
    COMMANDS = (
        ["up"],
        ["put"],
        ["get"],
        ["delete"],
        ["update"],
        ["scan"],
        ["watch"],
        ["load"],
        ["table", "create"],
        ["table", "list"],
        ["table", "describe"],
        ["table", "drop"],
        ["log", "dump"],
        ["cert", "init"],
        ["cert", "issue"],
        ["cert", "rotate"],
        ["cert", "show"],
    )

    @pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
    def test_every_command_shows_an_example_of_itself(self, command: list[str]) -> None:
        done = run_here(*command, "--help")
        assert done.returncode == 0
        assert f"\n    duramen {' '.join(command)}" in done.stdout
        assert "--json" in done.stdout

    def test_nothing_heavy_is_imported_before_it_is_needed(self) -> None:
        code = (
            "import sys, duramen.cli\n"
            "assert duramen.cli.run(['--version']) == 0\n"
            "heavy = {'grpc', 'lmdb', 'pyarrow', 'asyncio', 'rich', 'uvloop', 'cryptography'} & set(sys.modules)\n"
            "assert not heavy, heavy\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=patience_s(60)
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "duramen 0.1.0\n"

    def test_up_does_without_the_settings_of_roles(self) -> None:
        code = (
            "import sys\n"
            "import duramen.cli.servers.announcer, duramen.cli.servers.up, duramen.server.roles.http_port\n"
            "import duramen.server.settings.exposure\n"
            "assert 'pydantic_settings' not in sys.modules\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=patience_s(60)
        )
        assert done.returncode == 0, done.stderr
