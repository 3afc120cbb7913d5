"""What a command prints is obeyed by no terminal: keys, values, names and reasons are what others have written."""

from __future__ import annotations

import json
from contextlib import redirect_stdout
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess

from duramen.cli.terminal.output import say, say_error, say_note, say_table

HOSTILE = "a\x1b[31mb\x07\u202ec\x9bd\ud800"
PLAIN = "a\\x1b[31mb\\x07\\u202ec\\x9bd\\ud800"


def test_lines_tables_notes_and_errors(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    say_table(["key"], [(HOSTILE,)])
    say_note(HOSTILE)
    say_error("some", f"{HOSTILE}\n next", {}, retryable=False, as_json=False)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == PLAIN
    assert PLAIN in shown.out.replace(" \n", "\n")
    assert shown.err.splitlines() == [PLAIN, f"error: {PLAIN} next"]


def test_line_ends_and_tabs_of_a_value_stay(capsys: pytest.CaptureFixture[str]) -> None:
    say("a\tb\nc é 日本")
    assert capsys.readouterr().out == "a\tb\nc é 日本\n"


@given(st.text())
def test_any_text_is_printed_without_what_a_terminal_obeys(text: str) -> None:
    with redirect_stdout(StringIO()) as out:
        say(text)
    assert all(each.isprintable() or each in "\n\t" for each in out.getvalue())


@pytest.mark.embedded_log_only
def test_a_key_that_was_written_to_harm(tmp_path_factory: pytest.TempPathFactory) -> None:
    """`duramen admin explain` shows what others have written."""
    folder = tmp_path_factory.mktemp("hostile")
    server = ServerProcess(folder / "data", log=folder / "log")
    try:
        with server.connect() as db:
            db.create_table("orders", partitions=1).put(b"\x1b[2J\r\nk", b"v\x1b[31m")
        shown = run_here("admin", "explain", "orders", "base64:G1sySg0Kaw==", "--at", server.target)
        assert shown.returncode == 0, shown.stderr
        assert "\x1b" not in shown.stdout
        assert "\r" not in shown.stdout
        assert "v\\x1b[31m" in shown.stdout
        shown = run_here("admin", "explain", "orders", "base64:G1sySg0Kaw==", "--at", server.target, "--json")
        found = json.loads(shown.stdout)
        assert found["key"] == "\x1b[2J\r\nk", "programs get it as it is"
    finally:
        server.close()
