"""What a command imports, by the names of modules: a time would be another one on each machine."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from kit.client.server_process import ServerProcess
from kit.deadlines import patience_s

from duramen.blocking import Database

ROWS = (
    "duramen.blocking.row_table",
    "duramen.cli.data.defined_text",
    "duramen.client.row_table",
    "duramen.client.rows",
    "duramen.client.typed_table",
    "log_tier.rows.avro",
    "log_tier.rows.definition",
)
"""Types of rows, their codecs, and tables of them."""

ROUTES = ("log_tier.catalog.cluster_map", "log_tier.trust.users", "router.membership", "router.routing")
"""The map of a cluster of several nodes, and the ways in it."""

USERS = ("log_tier.access.client.kept_credentials", "log_tier.access.tokens")
"""Secrets."""

TRACES = ("duramen.blocking.observed_table", "duramen.client.observed_table", "opentelemetry")

SERVERS = (
    "duramen.server",
    "log_tier.embedded",
    "router.admin.planners",
    "router.data.direct_reads",
    "router.data.local_data",
    "router.endpoints",
    "serving_tier.index.lmdb",
    "serving_tier.node",
    "serving_tier.replica",
)
"""The data, and who serves them."""

VERBS = ("duramen.cli.admin.app", "router.admin.verbs")

LIBRARIES = ("argon2", "cryptography", "fastavro", "fsspec", "h11", "hiredis", "lmdb", "pyarrow", "pydantic")

BYTES = (*ROWS, *ROUTES, *USERS, *TRACES, *SERVERS, *VERBS, *LIBRARIES, "rich", "decimal", "importlib.metadata")
"""What a command on keys and values of one server has no use for."""

OURS_MAX = 162
"""Modules of Duramen that one of them imports. Each costs some 0.2 ms of a processor."""

PACKAGES = ("duramen", "log_tier", "router", "serving_tier", "spark_bulk")


def imported(*command: str) -> set[str]:
    """The modules that a new process has imported at the end of a command."""
    code = (
        "import atexit, json, sys\n"
        "atexit.register(lambda: print(json.dumps([*sys.modules]), file=sys.stderr))\n"
        "from duramen.cli import main\n"
        f"sys.argv = ['duramen', *{command!r}]\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=patience_s(60)
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def within(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    """Those of the modules that are one of the packages, or in one."""
    return sorted(each for each in modules if each in packages or each.startswith(tuple(f"{one}." for one in packages)))


@pytest.mark.parametrize("command", ["get NAME k", "put NAME k w", "delete NAME k", "scan NAME"])
def test_a_command_on_bytes_imports_what_bytes_need(
    command: str, server: ServerProcess, database: Database, table_name: str
) -> None:
    database.create_table(table_name, partitions=1).put(b"k", b"v")
    modules = imported(*command.replace("NAME", table_name).split(), "--at", server.target)
    assert "grpc" in modules
    assert within(modules, BYTES) == []
    ours = within(modules, PACKAGES)
    assert len(ours) <= OURS_MAX, f"{len(ours)} modules: {ours}"


def test_a_command_on_rows_imports_rows(server: ServerProcess, database: Database, table_name: str) -> None:
    """So the names above are those of modules that are there."""
    row = {"type": "record", "name": "Flight", "fields": [{"name": "number", "type": "long"}]}
    database.create_table(table_name, row=row, key="number", partitions=1).put({"number": 7})
    modules = imported("get", "--at", server.target, table_name, "7")
    assert {"duramen.cli.data.defined_text", "log_tier.rows.avro", "log_tier.rows.definition"} <= modules
    assert within(modules, (*ROUTES, *SERVERS, *VERBS)) == []


def test_a_list_of_tables_imports_no_rows(server: ServerProcess) -> None:
    modules = imported("table", "list", "--at", server.target, "--json")
    assert within(modules, (*ROWS, *ROUTES, *SERVERS, *VERBS, *LIBRARIES)) == []


def test_a_status_imports_no_verbs(server: ServerProcess) -> None:
    modules = imported("status", "--at", server.target)
    assert within(modules, (*ROWS, *ROUTES, *SERVERS, *VERBS, *LIBRARIES, "duramen.client.database")) == []


@pytest.mark.parametrize("name", [*ROWS, *ROUTES, *USERS, *TRACES, *SERVERS, *VERBS, *LIBRARIES])
def test_what_must_not_be_imported_is_there(name: str) -> None:
    """A name that nothing has would forbid nothing."""
    assert find_spec(name) is not None
