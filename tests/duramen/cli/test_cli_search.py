"""`duramen search`, and text indexes at the command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from kit.client.command_line import run_here
from kit.client.server_process import ServerProcess

SCHEMA = {
    "type": "record",
    "name": "Departure",
    "fields": [
        {"name": "carrier", "type": "string"},
        {"name": "flight", "type": "int"},
        {"name": "remark", "type": "string", "default": ""},
    ],
}


def test_a_text_index_is_made_searched_shown_and_dropped(
    server: ServerProcess, table_name: str, tmp_path: Path
) -> None:
    def run(*words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_here(*words, at=server.target)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    schema = tmp_path / "departure.avsc"
    schema.write_text(json.dumps(SCHEMA))
    run("table", "create", table_name, "-p", "2", "--schema", str(schema), "--key", "carrier,flight")
    for number, remark in enumerate(["heavy fog", "snow", "fog and snow in Zürich"]):
        run("put", table_name, json.dumps({"carrier": "UA", "flight": number, "remark": remark}))
    assert "has no text index" in run("search", table_name, "fog", code=2).stderr
    made = run("table", "index", "create", table_name, "words", "remark", "--kind", "text")
    assert made.stdout == f"table {table_name} has the index words (remark)\n"
    assert run("table", "index", "list", table_name).stdout == "words (text: remark)\n"
    listed = json.loads(run("table", "index", "list", table_name, "--json").stdout)
    assert listed == {"name": "words", "fields": ["remark"], "in_service": True, "kind": "text"}
    assert "indexes words (text: remark)" in run("table", "describe", table_name).stdout
    lines = run("search", table_name, "fog AND zürich").stdout.splitlines()
    score, row = lines[0].split("  ", 1)
    assert (len(lines), json.loads(row)["flight"]) == (1, 2)
    assert float(score) > 0
    assert len(run("search", table_name, "snow fog", "--level", "strong").stdout.splitlines()) == 3
    assert len(run("search", table_name, "snow fog", "-n", "2").stdout.splitlines()) == 2
    found = json.loads(run("search", table_name, "heavy", "--json", "--index", "words").stdout)
    assert found["value"] == {"carrier": "UA", "flight": 0, "remark": "heavy fog"}
    assert found["highlights"] == {"remark": {"text": "heavy fog", "spans": [[0, 5]]}}
    assert run("search", table_name, "thunder").stdout == ""
    assert "outside of quotes" in run("search", table_name, "fo*", code=2).stderr
    assert "kind= is one of" in run("table", "index", "create", table_name, "w", "remark", "--kind", "x", code=2).stderr
    run("table", "index", "drop", table_name, "words")
    assert run("table", "index", "list", table_name).stdout == ""
