"""What a server says of its start: it has room in a pipe that nobody reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from duramen.cli.servers.announcer import LISTED_MAX, Announcer
from duramen.server.roles.all_in_one import SingleServer
from log_tier.embedded import EmbeddedLog
from log_tier.model.errors import LogDamaged
from log_tier.model.identifiers import NAME_LENGTH_MAX
from log_tier.rows.table_spec import TableSpec

pytestmark = pytest.mark.embedded_log_only  # another log recovers elsewhere

PIPE_BYTES = 64 << 10
MORE = 3


@pytest.mark.parametrize("as_json", [True, False])
async def test_many_tables_and_a_long_recovery(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    server = await SingleServer.open(tmp_path / "data", port=0)
    try:
        names = [f"{number:03}-".ljust(NAME_LENGTH_MAX, "n") for number in range(LISTED_MAX + MORE)]
        for name in names:
            await server.data_plane.create_table(TableSpec(name, 1), timeout=60)
        recovery = cast(EmbeddedLog, server.data_plane.log).recovery
        cut = "the file " + "f" * 180
        recovery.notes.extend([cut] * (LISTED_MAX + MORE))
        recovery.damages.extend([LogDamaged(cut)] * (LISTED_MAX + MORE))
        Announcer(tmp_path / "data", None, "127.0.0.1", as_json).started(server)
    finally:
        await server.close()
    said = capsys.readouterr().out
    assert len(said) < PIPE_BYTES
    if as_json:
        document = json.loads(said)
        assert (document["table_count"], [each["table"] for each in document["tables"]]) == (
            len(names),
            names[:LISTED_MAX],
        )
        for found in (document["recovery"]["notes"], document["recovery"]["damages"]):
            assert (found[:LISTED_MAX], len(found)) == ([cut] * LISTED_MAX, LISTED_MAX + 1)
            assert found[-1].startswith(f"and {MORE} more")
    else:
        assert said.count(cut) == 2 * LISTED_MAX
        assert said.count(f"and {MORE} more") == 2
