"""The runbook of `docs/OPERATIONS.md`: every recipe's commands as they are written there, after the fault."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import takewhile
from pathlib import Path

import pytest
import redis
from kit.client.server_process import ServerProcess
from kit.cluster.cluster_process import ClusterProcess
from kit.cluster.recipe_servers import LimitedServer, ShellAt
from kit.cluster.recipes import PAGE, RECIPES, follow
from kit.deadlines import wait_until
from kit.index.version_building import build_version
from kit.storage.lost_end import lose_the_end
from kit.storage.versioned_document import sealed_json

from duramen.blocking import Database
from log_tier.catalog.remote.cluster_view import fetch_view
from log_tier.model.errors import CommandRejected, LogDamaged
from log_tier.model.identifiers import Partition
from log_tier.model.tokens import Token
from router.admin.client import AdminConnection
from router.admin.verbs import Move


def holders(cluster: ClusterProcess) -> list[set[str]]:
    return [
        {replica["node"] for replica in partition["replicas"]}
        for partition in cluster.rows("admin", "partitions", "flights")
    ]


def newest_job(cluster: ClusterProcess, state: str) -> dict[str, object]:
    return next(job for job in cluster.rows("admin", "jobs") if job["state"] == state)


def check_whole(cluster: ClusterProcess) -> None:
    with cluster.connect() as database:
        assert sum(1 for _ in database.table("flights").scan(prefix=b"UA", level="strong")) >= 400


def test_a_node_dies(cluster: ClusterProcess) -> None:
    cluster.pause("n2")
    cluster.wait_nodes("lost", "n2")
    check_whole(cluster)
    shown, partitions = follow(cluster, "A node dies")
    assert "lost" in shown
    assert "1 of 2" in partitions
    cluster.go_on("n2")
    cluster.wait_nodes("alive", "n1", "n2", "n3")
    cluster.wait_ready("flights")


def test_a_node_does_not_come_back_and_then_does(cluster: ClusterProcess) -> None:
    cluster.pause("n2")
    cluster.wait_nodes("lost", "n2")
    follow(cluster, "A node does not come back")
    assert {each["node"] for each in cluster.rows("admin", "nodes")} == {"n1", "n3"}
    assert "disk free" in cluster.run("admin", "nodes").splitlines()[-1], "the log's server"
    assert holders(cluster) == [{"n1", "n3"}] * 4
    cluster.wait_ready("flights")
    check_whole(cluster)
    cluster.go_on("n2")
    index = cluster.folder / "nodes" / "n2" / "index"
    wait_until(lambda: not list(index.glob("*/*")), "n2 deletes what was given away")
    cluster.kill9("n2")
    cluster.wait_nodes("alive", "n1", "n2", "n3")
    cluster.run("admin", "rebalance")
    assert any("n2" in each for each in holders(cluster))


def test_a_replica_lags(cluster: ClusterProcess) -> None:
    cluster.pause("n3")
    with cluster.connect() as database:
        database.table("flights").put_many((b"late%d" % number, b"x" * 100) for number in range(2000))
    cluster.go_on("n3")
    lag, nodes, plan, relief = follow(cluster, "A replica lags")
    assert "n3" in lag
    assert "n3" in nodes
    assert "no node is full, slow or hot" in plan
    assert "nothing has to be done" in relief
    wait_until(
        lambda: all(each["lag_records"] == 0 for each in cluster.rows("admin", "lag", "flights")), "the lag is 0 again"
    )


def test_calls_are_slow(cluster: ClusterProcess) -> None:
    slow, lag = follow(cluster, "Calls are slow")
    assert "100 ms or longer" in slow
    assert "flights" in lag


def test_a_snapshot_is_bad(cluster: ClusterProcess) -> None:
    cluster.run("admin", "snapshot", "flights")
    cluster.run("put", "flights", "UA1", "moved")
    for data in (cluster.folder / "snapshots").glob("*/*/*/data.mdb"):
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    refused = cluster.run("admin", "restore", "n2", "--source", "snapshot", code=1)
    assert "snapshot" in refused
    assert "failed" in refused
    for job in cluster.rows("admin", "jobs"):
        if job["state"] == "failed":
            cluster.run("admin", "abort", str(job["job"]))
    with cluster.connect() as database:  # each partition has something new, else there would be nothing to take
        database.table("flights").put_many((b"UA%d" % number, b"on time") for number in range(400))
    follow(cluster, "A snapshot is bad")
    verified = cluster.rows("admin", "verify", "flights")
    assert [each["verdict"] for each in verified] == ["equal"] * 4
    check_whole(cluster)


def test_the_snapshot_store_does_not_answer(cluster: ClusterProcess) -> None:
    store = cluster.folder / "snapshots"
    aside = cluster.folder / "output" / "store"
    store.rename(aside)
    store.write_text("no folder")
    started = cluster.run("admin", "snapshot", "flights", "--no-wait", "--json")
    job = str(json.loads(started.splitlines()[-1])["job"])
    wait_until(lambda: str(newest_or_none(cluster, "failed")) == job, "the job fails")
    notes = [task["note"] for task in cluster.rows("admin", "job", job)[0]["task_list"]]
    assert all("snapshot_store_unavailable" in note or "snapshot" in note for note in notes), notes
    check_whole(cluster)
    store.unlink()
    aside.rename(store)
    follow(cluster, "The snapshot store does not answer", JOB=job)
    wait_until(lambda: cluster.rows("admin", "job", job)[0]["state"] == "done", "the resumed job is done")


def newest_or_none(cluster: ClusterProcess, state: str) -> object:
    return next((job["job"] for job in cluster.rows("admin", "jobs") if job["state"] == state), None)


def test_a_move_waits_for_a_node_that_died(cluster: ClusterProcess) -> None:
    before = holders(cluster)
    (source, *_), target = sorted(before[0]), ({"n1", "n2", "n3"} - before[0]).pop()
    job = begun_move(cluster, source, target)
    wait_until(
        lambda: any(target in str(each["waits_for"]) for each in cluster.rows("admin", "jobs")), "jobs names the node"
    )
    jobs, _, partitions = follow(cluster, "A move waits for a node that died", JOB=job)
    assert target in jobs
    assert "flights/0" in partitions
    assert holders(cluster) == before
    cluster.go_on(target)
    cluster.wait_ready("flights")
    check_whole(cluster)


def begun_move(cluster: ClusterProcess, source: str, target: str) -> str:
    """A move to a node that was there when it was planned, and is not when it should work.

    A node that says nothing for 0.75 s is lost, and a plan for it is refused. A command's process takes longer than
    that to start on a busy machine, so the connection is there before the node is paused.
    """

    async def begin() -> str | None:
        async with AdminConnection(cluster.at) as admin:
            await admin.nodes()
            cluster.pause(target)
            try:
                return str((await admin.start(Move("flights", Partition(0), source, target))).job)
            except CommandRejected:
                return None

    for _ in range(10):
        cluster.wait_nodes("alive", target)
        job = asyncio.run(begin())
        if job is not None:
            return job
        cluster.go_on(target)  # the router was faster, and refused the plan
    raise AssertionError(f"the router counts {target} as lost before it gets a request, ten times")


def test_the_log_is_trimmed(cluster: ClusterProcess) -> None:
    with cluster.connect() as database:
        table = database.table("flights")
        for _ in range(3):
            table.put_many((b"UA%d" % number, b"x" * 1000) for number in range(400))
    follow(cluster, "The log's disk fills")
    cluster.wait_ready("flights")
    check_whole(cluster)
    cluster.run("admin", "compact", "flights", "--yes")


def test_a_nodes_disk_fills(cluster: ClusterProcess) -> None:
    nodes, plan = follow(cluster, "A node's disk fills")
    assert "free" in nodes
    assert "nothing has to be done" in plan


def test_a_machine_is_replaced(cluster: ClusterProcess) -> None:
    outputs = follow(cluster, "A machine is replaced")
    assert "n1" not in outputs[2]
    assert holders(cluster) == [{"n2", "n3"}] * 4
    check_whole(cluster)
    cluster.run("admin", "rebalance")
    assert any("n1" in each for each in holders(cluster))


def test_an_update_was_taken_back(cluster: ClusterProcess) -> None:
    index = cluster.folder / "nodes" / "n2" / "index"

    def as_newer() -> None:
        for marker in index.glob("*/*/index.json"):
            marker.write_bytes(sealed_json(marker.read_bytes(), lambda fields: fields.update(version=9)))

    def held() -> bool:
        return sum("n2" in each for each in holders(cluster)) == len(list(index.glob("*/*/index.json"))) > 0

    wait_until(held, "n2 has an index of each partition that it holds, and no others")
    cluster.kill9("n2", before_restart=as_newer)
    wait_until(lambda: "format version 9" in cluster.run("admin", "lag", "flights", "--json"), "n2 has looked at them")
    check_whole(cluster)
    shown, _ = follow(cluster, "An update was taken back")
    assert "format version 9" in shown
    cluster.wait_ready("flights")
    assert held()
    check_whole(cluster)


def test_wrong_keys_were_deleted(cluster: ClusterProcess) -> None:
    with cluster.connect() as database:
        token = database.table("flights").end_token()
        delete_all(database)
    outputs = follow(cluster, "Somebody deleted the wrong keys", TOKEN=token)
    assert "on time" in outputs[-1]
    with cluster.connect() as database:
        assert sum(1 for _ in database.table("flights_before").scan(prefix=b"UA", level="strong")) == 400
        assert not list(database.table("flights").scan(prefix=b"UA", level="strong"))


def delete_all(database: Database) -> None:
    table = database.table("flights")
    for key, _ in list(table.scan(prefix=b"UA")):
        table.delete(key)


def built(cluster: ClusterProcess, name: str) -> str:
    """A version of the table in which every flight has that value, as of now."""
    with cluster.connect() as database:
        token = Token.parse(str(database.table("flights").end_token()))
    table = asyncio.run(fetch_view(cluster.at, timeout=30)).map.find("flights").ref
    offsets = token.offsets(table.id)
    url = f"file://{cluster.folder.with_name('version-' + name)}"
    content = dict.fromkeys((b"UA%d" % number for number in range(400)), name.encode())
    bases = [offsets[Partition(number)] for number in range(table.partitions)]
    work = cluster.folder.with_name("work-" + name)
    asyncio.run(build_version(url, table, content, bases=bases, work=work, name=f"{len(name):x}"))
    return url


def values(cluster: ClusterProcess) -> set[bytes]:
    with cluster.connect() as database:
        return {value for _, value in database.table("flights").scan(prefix=b"UA", level="strong")}


def test_a_bulk_load_turned_out_wrong(cluster: ClusterProcess) -> None:
    before = values(cluster)
    cluster.run("admin", "stage", "flights", built(cluster, "wrong"))
    cluster.kill9("n1")
    cluster.wait_nodes("alive", "n1", "n2", "n3")
    cluster.wait_ready("flights")
    wait_until(lambda: not cluster.rows("admin", "versions", "flights")[1]["lacking"], "n1 is level again")
    cluster.run("admin", "swap", "flights")
    assert values(cluster) == {b"wrong"}
    cluster.kill9("n2")
    cluster.wait_nodes("alive", "n1", "n2", "n3")
    cluster.wait_ready("flights")
    wait_until(lambda: not cluster.rows("admin", "versions", "flights")[0]["lacking"], "n2 is level again")
    cluster.run("admin", "rollback", "flights")
    refused = cluster.run("admin", "discard", "flights", "2", "--yes", code=4)
    assert "take a snapshot of each partition first" in refused
    cluster.run("admin", "swap", "flights", "--version", "2")
    shown, *_ = follow(cluster, "A bulk load turned out wrong")
    assert "kept" in shown
    assert values(cluster) == before
    cluster.run("admin", "discard", "flights", "2", "--yes")
    assert [each["state"] for each in cluster.rows("admin", "versions", "flights")] == ["live"]


def test_a_table_was_cleared_by_mistake(cluster: ClusterProcess) -> None:
    cluster.run("table", "create", "sessions", "--partitions", "2", "--replicas", "3")
    cluster.run("put", "sessions", "a", "1")
    refused = cluster.run("admin", "clear", "sessions", "--keep", "0", code=2)
    assert "its content cannot be brought back; say --yes" in refused
    cluster.run("admin", "clear", "sessions", "--dry-run")
    assert cluster.run("get", "sessions", "a", "--level", "strong").strip() == "1"
    cluster.run("admin", "clear", "sessions")
    cluster.run("get", "sessions", "a", "--level", "strong", code=3)
    cluster.run("put", "sessions", "b", "2")
    shown, *_ = follow(cluster, "A table was cleared by mistake")
    assert "empty:" in shown
    assert cluster.run("get", "sessions", "a", "--level", "strong").strip() == "1"
    assert cluster.run("get", "sessions", "b", "--level", "strong").strip() == "2"
    cluster.run("table", "drop", "sessions", "--yes")


def test_a_stage_does_not_end(cluster: ClusterProcess) -> None:
    url = built(cluster, "damaged")
    before = values(cluster)
    data = next(cluster.folder.with_name("version-damaged").glob("*/2/*/data.mdb"))
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    started = cluster.run("admin", "stage", "flights", url, "--no-wait", "--json")
    job = str(json.loads(started.splitlines()[-1])["job"])
    wait_until(lambda: str(newest_or_none(cluster, "failed")) == job, "the stage fails")
    shown, versions = follow(cluster, "A stage does not end", JOB=job)
    assert "snapshot_damaged" in shown
    assert "staging" in versions
    cluster.run("admin", "swap", "flights", "--version", "2", code=4)
    cluster.run("admin", "abort", job)
    assert values(cluster) == before


def test_everything_is_the_same_everywhere(cluster: ClusterProcess) -> None:
    verified, counted, explained, checked = follow(cluster, "Is everything the same everywhere?")
    assert verified.count("equal") == 4
    assert "applied" in counted
    assert "on time" in explained
    assert "every promise held" in checked


def test_a_log_has_lost_its_end(tmp_path: Path) -> None:
    """Where there is no copy: what is left is saved and loaded into another table."""
    server = ServerProcess(tmp_path / "data", log=tmp_path / "output")
    with server.connect() as database:
        table = database.create_table("flights", partitions=1)
        for number in range(12):
            table.put(b"UA%d" % number, b"departed %d" % number)
    server.kill9()
    lose_the_end(tmp_path / "data", b"UA11", "truncated")
    server.start()
    cluster = ShellAt(server.target, tmp_path)
    with server.connect() as database:
        for call in (lambda: database.table("flights").get(b"UA1"), lambda: database.table("flights").put(b"k", b"v")):
            with pytest.raises(LogDamaged, match=r"acknowledged writes are missing|is damaged at byte"):
                call()
    follow(cluster, "A log has lost its end")
    with server.connect() as database:
        left = list(database.table("flights-left").scan(level="strong"))
        assert left == [(b"UA%d" % number, b"departed %d" % number) for number in sorted(range(10), key=str)]
    server.close()


def test_open_files_run_out(tmp_path: Path) -> None:
    cluster = LimitedServer(tmp_path / "data")
    idle = [cluster.connect() for _ in range(200)]
    try:
        taken = list(takewhile(_takes, idle))
        with pytest.raises(redis.ConnectionError, match="max number of clients reached"):
            idle[len(taken)].ping()
        (shown,) = follow(cluster, "Open files run out")
        assert "SERVING" in shown
        limits = Path(f"/proc/{cluster.process.pid}/limits").read_text()
        assert re.search(r"Max open files +200 +200", limits)
        clients = taken[0].info("clients")
        assert clients["connected_clients"] == clients["maxclients"] == len(taken)
        for each in taken:
            each.close()
        with cluster.connect() as again:
            wait_until(lambda: _takes(again), "a new connection is taken")
        assert cluster.run("table", "list")
    finally:
        for each in idle:
            each.close()
        cluster.close()


def _takes(client: redis.Redis) -> bool:
    try:
        return bool(client.set("k", "v"))
    except redis.ConnectionError:
        return False


def test_every_recipe_has_its_four_parts() -> None:
    runbook = PAGE.read_text().split("## Runbook")[1].split("\n## ")[0]
    for part in runbook.split("\n### ")[1:]:
        named = re.findall(r"^\*\*(\w+)\.\*\*", part, re.MULTILINE)
        assert named == ["Symptom", "Impact", "Do", "Verify"], part.splitlines()[0]


def test_every_recipe_has_a_test() -> None:
    source = "".join(each.read_text() for each in sorted(Path(__file__).parent.glob("test_runbook*.py")))
    assert len(RECIPES) == 21
    for name, commands in RECIPES.items():
        assert commands, name
        assert f'follow(cluster, "{name}"' in source, f"no test follows the recipe {name!r}"
