"""A real data set from build to reads: the packages that this machine's package system knows, each with its fields."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.client.server_process import run_duramen

from spark_bulk.build.version_build import Built, build_index

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def packages() -> Iterator[dict[str, str]]:
    """What `apt-cache dumpavail` lists; a line that begins with a space goes on with the field before it."""
    listed = subprocess.run(["apt-cache", "dumpavail"], capture_output=True, check=True).stdout.decode(errors="replace")
    for paragraph in listed.split("\n\n"):
        fields: dict[str, str] = {}
        name = ""
        for line in paragraph.splitlines():
            if line.startswith((" ", "\t")) and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if "Package" in fields:
            yield fields


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="no apt-cache: the packages of Debian are the data set")
def test_debians_packages(spark: Any, server: Any, table: Any, tmp_path: Path) -> None:
    found = list(packages())
    if len(found) < 100:
        pytest.skip(f"apt knows {len(found)} packages here: apt-get update")
    lines = tmp_path / "packages.json"
    lines.write_text("\n".join(json.dumps({"name": each["Package"], "fields": each}) for each in found))
    frame = spark.read.schema("name STRING, fields MAP<STRING, STRING>").json(str(lines))
    built: list[Built] = []
    url = f"file://{tmp_path / 'version'}"
    # A name comes once for each version of the package that can be had: the last by version counts, as text.
    build_index(
        frame.selectExpr("name", "fields", "fields['Version'] AS version"),
        at=server.target,
        table=table.name,
        key="name",
        value="fields",
        url=url,
        duplicates="last",
        order_by="version",
        report=built.append,
    )
    wanted: dict[str, dict[str, str]] = {}
    for each in sorted(found, key=lambda each: each.get("Version", "").encode()):
        wanted[each["Package"]] = each
    assert (built[0].rows, built[0].dropped) == (len(found), len(found) - len(wanted))
    for command in (("stage", table.name, url), ("swap", table.name)):
        done = run_duramen("bulk", *command, at=server.target)
        assert done.returncode == 0, done.stdout + done.stderr
    with server.connect() as database:
        held = {key.decode(): json.loads(value) for key, value in database.table(table.name).scan(level="strong")}
    differing = [name for name in wanted.keys() | held.keys() if held.get(name) != wanted.get(name)]
    equal_versions = {name for name in differing if held[name].get("Version") == wanted[name].get("Version")}
    assert set(differing) == equal_versions, "only among copies of one version may another one be the last"
    assert len(held) == len(wanted)
