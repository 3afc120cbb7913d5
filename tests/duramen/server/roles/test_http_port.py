"""The HTTP port of every role that knows itself: alone, in a cluster of processes, and where the port is taken."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import patience_s, until_true, wait_until, within
from kit.event_stream import event_stream
from kit.http import http_get
from kit.storage.lost_end import lose_the_end
from prometheus_client.parser import text_string_to_metric_families

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity
from duramen.cli.terminal.status_client import StatusClient
from duramen.server.roles import http_port
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.http_port import opened_with_http
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.access.authenticator import bearer_header
from log_tier.access.tokens import mint_token
from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.model.errors import PortInUse
from log_tier.model.identifiers import NOTHING, Partition
from log_tier.trust.trust_commands import AddToken, AddUser, RevokeToken

pytestmark = pytest.mark.embedded_log_only  # the clusters here have a log process of their own


def answered(port: int, path: str) -> tuple[int, Any]:
    """The code and the document of a path."""
    code, _, body = asyncio.run(http_get(port, path))
    return code, json.loads(body)


def nodes_up(port: int) -> dict[str, float]:
    """By node: does it answer, as the router's metrics have it?"""
    _, _, body = asyncio.run(http_get(port, "/metrics"))
    return {
        sample.labels["node"]: sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
        if sample.name == "duramen_node_up"
    }


async def test_a_node_and_a_router_answer_for_themselves(tmp_path: Path) -> None:
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    url = f"grpc://127.0.0.1:{log.port}"
    opening = NodeRole.open(tmp_path / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0)
    node = await opened_with_http(opening, 0, None)
    router = await opened_with_http(RouterRole.open(log_url=url, host="127.0.0.1", port=0), 0, None)
    assert len({node.http_port, node.port, router.http_port, router.port, 0}) == 5
    for role, server in (("node", node), ("router", router)):
        code, _, body = await http_get(server.http_port, "/status")
        assert (code, json.loads(body)["role"]) == (200, role)
        assert f'role="{role}"' in (await http_get(server.http_port, "/metrics"))[2].decode()

    async def sees_the_node() -> bool:
        return b'duramen_node_up{node="n1"} 1.0' in (await http_get(router.http_port, "/metrics"))[2]

    await until_true(sees_the_node, seconds=30)
    async with within(60), event_stream(router.http_port) as events:
        found = (await events.next()).data["facts"]["nodes"]
        while found[0]["answered_s"] is None:
            found = (await events.next()).data["facts"].get("nodes", found)
        assert (found[0]["node"], found[0]["ready"], found[0]["partitions"]) == ("n1", True, 0)
    ports = node.http_port, router.http_port
    for opened in (router, node, log):
        await opened.close()
    for port in ports:
        with pytest.raises(ConnectionError):
            await http_get(port, "/livez")


async def test_a_log_answers_for_itself(tmp_path: Path) -> None:
    log = await opened_with_http(LogRole.open(tmp_path / "log", host="127.0.0.1", port=0), 0, None)
    url = f"grpc://127.0.0.1:{log.port}"
    router = await RouterRole.open(log_url=url, host="127.0.0.1", port=0)
    _, _, body = await http_get(log.http_port, "/status")
    found = json.loads(body)
    assert (found["role"], found["ready"], found["partitions"], found["catalog_version"]) == ("log", True, [], None)
    before = found["log"]["appends"]
    await router.catalog.submit(RegisterNode("n9", "127.0.0.1:9", "of-n9"))
    async with StatusClient.connected(f"127.0.0.1:{log.port}", timeout=patience_s(10)) as client:
        assert (await client.ask())["log"]["appends"] > before
    metrics = (await http_get(log.http_port, "/metrics"))[2].decode()
    assert "duramen_log_writable 1.0" in metrics
    assert "duramen_catalog_version" not in metrics  # it follows none
    assert (await http_get(log.http_port, "/readyz"))[0] == 200
    await router.close()
    await log.close()
    assert log.http_port == 0


async def test_a_log_with_users_shows_itself_to_them_alone(tmp_path: Path) -> None:
    folder = CertificateFolder(tmp_path / "certs")
    folder.make_authority()
    folder.issue(CertificateIdentity("server", "server"), ["localhost"])
    certificates = ServerCertificates.open(tmp_path / "certs")
    trust = ssl.create_default_context(cafile=str(tmp_path / "certs" / "ca.crt"))
    opening = LogRole.open(tmp_path / "log", host="127.0.0.1", port=0, certificates=certificates)
    log = await opened_with_http(opening, 0, certificates)
    catalog, token = await Catalog.open(log.log), mint_token("root")
    assert (await http_get(log.http_port, "/status", tls=trust))[0] == 200
    await catalog.submit(AddUser("root", catalog.map.version, "", ("admin *",)))
    await catalog.submit(AddToken("root", catalog.map.version, token.id, token.sha256, 0))
    proof = f"Authorization: {bearer_header(token.text)}"

    async def answers(code: int, *headers: str) -> bool:
        return (await http_get(log.http_port, "/status", *headers, tls=trust))[0] == code

    await until_true(lambda: answers(401))
    await until_true(lambda: answers(200, proof))
    assert await answers(401, "Authorization: Bearer nonsense")
    assert (await http_get(log.http_port, "/readyz", tls=trust))[0] == 200
    await catalog.submit(RevokeToken("root", catalog.map.version, token.id))
    await until_true(lambda: answers(401, proof))
    await catalog.close()
    await log.close()


async def test_a_log_whose_catalog_is_damaged_serves_without_http(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = await LogRole.open(tmp_path / "log", host="127.0.0.1", port=0)
    catalog = await Catalog.open(log.log)
    await catalog.submit(AddUser("root", catalog.map.version, "", ("admin *",)))
    await catalog.submit(AddUser("alice", catalog.map.version, "", ()))
    topic = await log.log.create_topic("orders", partitions=1)
    await catalog.close()
    await log.close()
    lose_the_end(tmp_path / "log", b"alice", "zeroed")
    log = await opened_with_http(LogRole.open(tmp_path / "log", host="127.0.0.1", port=0), None, None)
    assert log.http_port == 0
    assert "the log has no HTTP port" in caplog.text
    assert (await log.log.bounds(topic.partition(Partition(0)))).latest == NOTHING
    async with StatusClient.connected(f"127.0.0.1:{log.port}", timeout=patience_s(10)) as client:
        assert (await client.ask())["log"]["damages"] == 1
    await log.close()


async def test_switched_off_nothing_listens(tmp_path: Path) -> None:
    server = await opened_with_http(SingleServer.open(tmp_path / "data", port=0), -1, None)
    assert server.http_port == 0
    await server.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_where_nobody_names_a_port_this_machine_alone_reaches_one(tmp_path: Path, host: str) -> None:
    server = await opened_with_http(SingleServer.open(tmp_path / "data", host=host, port=0), None, None)
    assert (await http_get(server.http_port, "/livez"))[0] == 200
    # 127.0.0.2 stands for an address of other machines: who listens at all of them is there too.
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.2", server.http_port)
    if host == "0.0.0.0":
        _, writer = await asyncio.open_connection("127.0.0.2", server.port)
        writer.close()
    await server.close()


async def test_a_second_server_takes_a_free_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(http_port, "HTTP_PORT", taken.getsockname()[1])
        server = await opened_with_http(SingleServer.open(tmp_path / "data", port=0), None, None)
        assert server.http_port not in (taken.getsockname()[1], 0)
        assert (await http_get(server.http_port, "/readyz"))[0] == 200
        await server.close()


async def test_a_port_that_is_taken_closes_what_was_opened(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortInUse):
        await opened_with_http(SingleServer.open(tmp_path / "data", port=0), taken.getsockname()[1], None)
    again = await opened_with_http(SingleServer.open(tmp_path / "data", port=0), 0, None)  # the folder is free
    await again.close()


def test_a_cluster_of_processes_has_a_port_for_each(tmp_path: Path) -> None:
    cluster = ClusterProcess(tmp_path / "data", nodes=2, arguments=["--http-port", "0"])
    try:
        assert cluster.started is not None
        router = cluster.started["http_port"]
        ports = {name: child["http_port"] for name, child in cluster.children.items()}
        assert ports.keys() == {"log", "n1", "n2", "router"}
        assert (ports["router"], len(set(ports.values()))) == (router, 4)
        assert answered(ports["log"], "/status")[1]["role"] == "log"
        wait_until(lambda: nodes_up(router) == {"n1": 1.0, "n2": 1.0}, "both nodes answer the router")
        for name in ("n1", "n2"):
            wait_until(lambda name=name: answered(ports[name], "/readyz")[0] == 200, f"{name} is ready")  # type: ignore[misc]
        cluster.pause("n2")
        wait_until(lambda: nodes_up(router)["n2"] == 0.0, "the router misses n2")
        assert {each["kind"] for each in answered(router, "/status")[1]["troubles"]} >= {"node_lost"}
        assert answered(ports["n1"], "/livez")[0] == 200
        cluster.go_on("n2")
        cluster.kill9("n2")
        wait_until(lambda: nodes_up(router) == {"n1": 1.0, "n2": 1.0}, "n2 is back")
        assert cluster.children["n2"]["http_port"] == ports["n2"]
        wait_until(lambda: answered(ports["n2"], "/readyz")[0] == 200, "n2 is ready again")
    finally:
        cluster.close()
