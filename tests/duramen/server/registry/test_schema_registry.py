"""The registry of real servers: over HTTP, for users, for two at once, at a server that has not heard yet."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from kit.deadlines import patience_s
from kit.flight_rows import FLIGHTS, UNNUMBERED_FLIGHTS
from kit.http import http_get, http_post, http_raw

from duramen.server.registry.schema_registry import SchemaRegistry
from duramen.server.roles.all_in_one import SingleServer
from duramen.server.roles.http_port import opened_with_http
from duramen.server.roles.log_role import LogRole
from duramen.server.roles.node_role import NodeRole
from duramen.server.roles.router_role import RouterRole
from log_tier.access.authenticator import bearer_header
from log_tier.access.tokens import mint_token
from log_tier.catalog.cluster_map import ClusterMap
from log_tier.model.errors import DeadlineExceeded, Disconnected
from log_tier.rows.table_spec import TableSpec
from log_tier.trust.trust_commands import AddToken, AddUser

pytestmark = pytest.mark.embedded_log_only  # over Kafka: tests/kafka/test_rows_on_kafka.py

TEXT = FLIGHTS.schemas[0].schema.text
JSON = "application/vnd.schemaregistry.v1+json"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[SingleServer]:
    opened = await SingleServer.open(tmp_path / "data", port=0)
    await opened.serve_http(0)
    for spec in (TableSpec("flights", 1, definition=UNNUMBERED_FLIGHTS), TableSpec("plain", 1)):
        await opened.data_plane.create_table(spec, timeout=patience_s(30))
    yield opened
    await opened.close()


async def asked(port: int, path: str, *headers: str, host: str = "localhost") -> tuple[int, Any]:
    code, fields, body = await http_get(port, path, *headers, host=host)
    assert fields["content-type"] == JSON
    return code, json.loads(body)


async def test_schemas_and_subjects(server: SingleServer) -> None:
    port = server.http_port
    assert await asked(port, "/schemas/ids/1?subject=flights-value") == (200, {"schema": TEXT})
    assert await asked(port, "/subjects") == (200, ["flights-value"])
    shown = {"subject": "flights-value", "version": 1, "id": 1, "schema": TEXT}
    assert await asked(port, "/subjects/flights-value/versions/latest") == (200, shown)
    code, document = await asked(port, "/subjects/plain-value/versions")
    assert (code, document["error_code"]) == (404, 40401)
    code, fields, body = await http_get(port, "/schemas/ids/1", method="HEAD")
    assert (code, body, int(fields["content-length"]) > 100) == (200, b"", True)


async def test_what_would_change_it_is_refused_and_the_refusal_says_what_to_do(server: SingleServer) -> None:
    port = server.http_port
    sent = json.dumps({"schema": TEXT}).encode()
    for path in ("/subjects/flights-value/versions", "/config", "/mode/flights-value", "/schemas/ids/1"):
        code, fields, body = await http_post(port, path, sent, f"Content-Type: {JSON}")
        document = json.loads(body)
        assert (code, fields["allow"], document["error_code"]) == (405, "GET, HEAD", 42205)
        assert "auto.register.schemas=false" in document["message"]
    for method in ("PUT", "DELETE"):
        code, _, body = await http_get(port, "/subjects/flights-value", method=method)
        assert (code, json.loads(body)["error_code"]) == (405, 42205)
    assert (await http_post(port, "/subjects/flights-value/versions", b"x" * (64 << 10 | 1)))[0] == 413
    assert await asked(port, "/subjects/flights-value/versions") == (200, [1])


async def test_a_schema_is_compared_with_those_of_a_table(server: SingleServer) -> None:
    port, path = server.http_port, "/compatibility/subjects/flights-value/versions/latest"
    sent = json.dumps({"schema": TEXT}).encode()
    code, _, body = await http_post(port, path, sent, f"Content-Type: {JSON}")
    assert (code, json.loads(body)) == (200, {"is_compatible": True})
    other = json.dumps({"schema": TEXT.replace('"tailnum"', '"tail"').replace('"flight"', '"number"')}).encode()
    code, _, body = await http_post(port, f"{path}?verbose=true", other)
    assert (code, json.loads(body)["is_compatible"]) == (200, False)
    code, document = await asked(port, path)
    assert (code, document["error_code"], "by POST" in document["message"]) == (405, 405, True)
    assert (await http_post(port, path, sent, host="evil.example"))[0] == 403
    assert (await http_post(port, path, b"x" * (64 << 10 | 1)))[0] == 413
    await server.data_plane.catalog.submit(AddUser("root", server.data_plane.catalog.map.version, "", ("admin *",)))
    assert (await http_post(port, path, sent))[0] == 401


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"/subjects/" + b"%ff" * 4000 + b"/versions", 404),
        (b"/subjects/" + b"/" * 10_000, 404),
        (b"/schemas/ids/" + b"1" * 10_000, 404),
        (b"/schemas/ids/1?" + b"a=1&" * 3000, 400),
        (b"/subjects/a%2Fb/versions/%00", 404),
        (b"/schemasids/1", 404),
        (b"/schemas/../../etc/passwd", 404),
        (b"/config/" + b"a" * 40_000, 431),
    ],
)
async def test_hostile_targets(server: SingleServer, target: bytes, status: int) -> None:
    sent = b"GET " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    received = await http_raw(server.http_port, sent)
    assert int(received.split(b" ", 2)[1]) == status
    assert len(received) < 2000
    assert await asked(server.http_port, "/subjects") == (200, ["flights-value"])


async def test_without_users_a_web_page_reads_nothing(server: SingleServer) -> None:
    code, document = await asked(server.http_port, "/schemas/ids/1", host="evil.example")
    assert (code, document["error_code"]) == (403, 40301)
    assert await asked(server.http_port, "/schemas/ids/1", host="127.0.0.1") == (200, {"schema": TEXT})


async def test_users_read_the_schemas_of_their_tables(server: SingleServer) -> None:
    catalog, port = server.data_plane.catalog, server.http_port
    await catalog.submit(AddUser("root", catalog.map.version, "", ("admin *",)))
    proofs: dict[str, str] = {}
    for name, grant in (("flyer", "read flights --key UA"), ("other", "read plain")):
        token = mint_token(name)
        await catalog.submit(AddUser(name, catalog.map.version, "", (grant,)))
        await catalog.submit(AddToken(name, catalog.map.version, token.id, token.sha256, 0))
        proofs[name] = f"Authorization: {bearer_header(token.text)}"
    code, fields, body = await http_get(port, "/schemas/ids/1")
    assert (code, json.loads(body)["error_code"], "Basic" in fields["www-authenticate"]) == (401, 40101, True)
    assert (await asked(port, "/schemas/ids/1", "Authorization: Bearer none"))[0] == 401
    assert await asked(port, "/schemas/ids/1", proofs["flyer"]) == (200, {"schema": TEXT})
    assert await asked(port, "/subjects", proofs["flyer"]) == (200, ["flights-value"])
    code, document = await asked(port, "/schemas/ids/1", proofs["other"])
    assert (code, document["error_code"]) == (404, 40403)
    assert await asked(port, "/subjects", proofs["other"]) == (200, [])


async def test_every_server_of_a_cluster_answers_and_hears_of_a_table_that_another_made(tmp_path: Path) -> None:
    log = await opened_with_http(LogRole.open(tmp_path / "log", host="127.0.0.1", port=0), 0, None)
    url = f"grpc://127.0.0.1:{log.port}"
    opening = NodeRole.open(tmp_path / "n1", node_id="n1", log_url=url, host="127.0.0.1", port=0)
    node = await opened_with_http(opening, 0, None)
    router = await opened_with_http(RouterRole.open(log_url=url, host="127.0.0.1", port=0), 0, None)
    try:
        spec = TableSpec("flights", 1, definition=UNNUMBERED_FLIGHTS)
        await router.connection.create_table(spec, timeout=patience_s(30))
        for each in (log, node, router):  # at once: what none of them has heard of is asked of the catalog's end
            assert await asked(each.http_port, "/schemas/ids/1") == (200, {"schema": TEXT})
    finally:
        for each in (router, node, log):
            await each.close()


class SlowCatalog:
    """A catalog whose end is asked for as a test says."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self.asked = 0
        self.answering = asyncio.Event()
        self.failure: Exception | None = None

    async def refresh(self) -> ClusterMap:
        self.asked += 1
        await self.answering.wait()
        if self.failure is not None:
            raise self.failure
        return self.map


def registry_of(catalog: Any, refresh_s: float = 5.0) -> SchemaRegistry:
    log: Any = None
    return SchemaRegistry(catalog, log, refresh_s=refresh_s)


async def test_requests_that_come_together_share_a_look_at_the_end_that_began_after_them() -> None:
    catalog = SlowCatalog()
    registry = registry_of(catalog)
    first = asyncio.create_task(registry.refresh())
    await asyncio.sleep(0)
    later = [asyncio.create_task(registry.refresh()) for _ in range(50)]
    await asyncio.sleep(0)
    catalog.answering.set()
    await asyncio.gather(first, *later)
    assert catalog.asked == 2, "one for the first, and one that began after all others had come"


async def test_a_look_that_failed_counts_for_nobody_else() -> None:
    catalog = SlowCatalog()
    registry = registry_of(catalog)
    catalog.failure = Disconnected("the log is away")
    catalog.answering.set()
    found = await asyncio.gather(*(registry.refresh() for _ in range(3)), return_exceptions=True)
    assert [type(each) for each in found] == [Disconnected] * 3
    assert catalog.asked == 3


async def test_a_log_that_does_not_answer_is_waited_for_a_bounded_time() -> None:
    registry = registry_of(SlowCatalog(), refresh_s=0.05)
    found = await asyncio.gather(*(registry.refresh() for _ in range(20)), return_exceptions=True)
    assert [type(each) for each in found] == [DeadlineExceeded] * 20
