"""The HTTP port of every role that knows itself: alone, in a cluster of processes, and where the port is taken."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest
from kit.cluster.cluster_process import ClusterProcess
from kit.deadlines import until_true, wait_until
from kit.http import http_get
from prometheus_client.parser import text_string_to_metric_families

from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.http_port import opened_with_http
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from log_tier.model.errors import PortInUse

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
    ports = node.http_port, router.http_port
    for opened in (router, node, log):
        await opened.close()
    for port in ports:
        with pytest.raises(ConnectionError):
            await http_get(port, "/livez")


@pytest.mark.parametrize("port", [None, -1])
async def test_without_a_port_nothing_listens(tmp_path: Path, port: int | None) -> None:
    server = await opened_with_http(SingleServer.open(tmp_path / "data", port=0), port, None)
    assert server.http_port == 0
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
        ports = {name: child["http_port"] for name, child in cluster.children.items() if child["role"] != "log"}
        assert ports.keys() == {"n1", "n2", "router"}
        assert (ports["router"], len(set(ports.values()))) == (router, 3)
        assert "http_port" not in cluster.children["log"]
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
