"""The recipes of the runbook for a log that is damaged: the commands as they are written there."""

from __future__ import annotations

import shutil
from pathlib import Path

from kit.client.server_process import ServerProcess
from kit.cluster.recipe_servers import ShellAt
from kit.cluster.recipes import follow


def damaged_server(tmp_path: Path) -> tuple[ServerProcess, ShellAt, Path]:
    """A stopped server whose log lacks two records in its middle, a shell, and a copy of its folder."""
    data, copy = tmp_path / "data", tmp_path / "copy"
    server = ServerProcess(data, log=tmp_path / "output")
    with server.connect() as database:
        table = database.create_table("flights", partitions=1)
        for number in range(12):
            table.put(b"UA%d" % number, b"departed %d" % number)
    server.stop()
    shutil.copytree(data, copy)
    segment = next(each for each in data.glob("log/topics/*/0/*.log") if b"UA5" in each.read_bytes())
    stored = segment.read_bytes()
    first, last = stored.find(b"UA5"), stored.find(b"UA6")
    segment.write_bytes(stored[:first] + bytes(last - first + 9) + stored[last + 9 :])
    return server, ShellAt(server.target, tmp_path), copy


def test_a_log_is_damaged(tmp_path: Path) -> None:
    server, cluster, _ = damaged_server(tmp_path)
    planned, repaired = follow(cluster, "A log is damaged", DATA="data", COPY="copy")
    assert "not begun: a dry run" in planned
    assert "offsets 5 to 6 taken from the copy" in repaired
    assert cluster.run("log", "verify", "data").startswith("nothing is damaged")
    server.start()
    with server.connect() as database:
        assert dict(database.table("flights").scan()) == {b"UA%d" % n: b"departed %d" % n for n in range(12)}
    server.close()


def test_no_copy_has_a_damaged_part(tmp_path: Path) -> None:
    server, cluster, copy = damaged_server(tmp_path)
    for segment in copy.glob("log/topics/*/0/*.log"):
        if b"UA6" in segment.read_bytes():  # it is damaged as well
            segment.write_bytes(segment.read_bytes().replace(b"UA6", b"UA7"))
    words = {"DATA": "data", "COPY": "copy", "flights/0:18-19": "flights/0:6"}
    (repaired,) = follow(cluster, "No copy has a damaged part of a log", **words)
    assert "offset 5 taken from the copy" in repaired
    assert "offset 6 given up" in repaired
    assert "a repair gave up offset 6" in cluster.run("log", "verify", "data")
    server.start()
    cluster = ShellAt(server.target, tmp_path)
    assert "11 keys" in cluster.run("admin", "verify", "flights")
    with server.connect() as database:
        left = {b"UA%d" % n: b"departed %d" % n for n in range(12) if n != 6}
        assert dict(database.table("flights").scan(level="strong")) == left
    server.close()
