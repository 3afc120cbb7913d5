"""Random calls on the service against a dict, with the versions that replies gave as the next conditions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.clients.kv_servers import KVClient, number, refusal_of

from duramen.client.transport.loop_thread import LoopThread
from duramen.server.roles.all_in_one import SingleServer
from router.proto import kv_pb2 as kv

NAMES = [b"{t}a", b"{t}b", b"{t}c", b"other", b"\xff"]
ABSENT = -1

keys = st.sampled_from(NAMES)
values = st.sampled_from([b"", b"1", b"-7", b"2.5", b"text", b"x" * 300])
condition = st.sampled_from(["", "", "", "absent", "present", "version", "stale"])
steps = st.one_of(
    st.tuples(st.just("put"), keys, values, condition),
    st.tuples(st.just("delete"), keys, st.just(b""), st.sampled_from(["", "present", "version", "stale"])),
    st.tuples(st.sampled_from(["add", "max", "append"]), keys, st.sampled_from([b"1", b"40"]), condition),
    st.tuples(st.just("group"), st.just(NAMES[0]), values, condition),
)


class Model:
    """A dict of values and versions. Versions are the replies'; that they are right shows when they are conditions."""

    def __init__(self) -> None:
        self.entries: dict[bytes, tuple[bytes, int]] = {}

    def version(self, key: bytes) -> int:
        return self.entries[key][1] if key in self.entries else ABSENT

    def allows(self, key: bytes, asked: str) -> bool:
        return {"absent": key not in self.entries, "present": key in self.entries, "stale": False}.get(asked, True)

    def arguments(self, key: bytes, asked: str) -> dict[str, Any]:
        conditions: dict[str, dict[str, Any]] = {
            "absent": {"if_absent": True},
            "present": {"if_present": True},
            "version": {"if_version": self.version(key)},
            "stale": {"if_version": self.version(key) + 1},
        }
        return conditions.get(asked, {})

    def updated(self, key: bytes, operation: str, operand: bytes) -> bytes | None:
        """The value after an update; None where it is refused."""
        before = self.entries.get(key, (None, 0))[0]
        if operation == "append":
            return (before or b"") + operand
        try:
            found = 0.0 if before is None else float(before)
        except ValueError:
            return None
        result = found + int(operand) if operation == "add" else max(int(operand), found)
        if operation == "max" and before is None:
            result = int(operand)
        return b"%d" % int(result) if float(result).is_integer() else repr(result).encode()


@pytest.fixture(scope="module")
def loop_and_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LoopThread, KVClient]]:
    loop = LoopThread()
    folder: Path = tmp_path_factory.mktemp("model")
    server = loop.run(lambda: SingleServer.open(folder / "data", port=0))

    async def connect() -> KVClient:
        made = KVClient(server.port)
        await made.create()
        return made

    client = loop.run(connect)
    yield loop, client
    loop.run(lambda: client.channel.close(None))
    loop.run(server.close)
    loop.stop()


_runs = iter(range(1_000_000))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=25))
def test_against_a_dict(
    loop_and_client: tuple[LoopThread, KVClient], plan: list[tuple[str, bytes, bytes, str]]
) -> None:
    loop, client = loop_and_client
    mine = b"%08d" % next(_runs)  # each run has keys of its own
    loop.run(
        lambda: asyncio.wait_for(
            check_plan(client, mine, [(kind, mine + name, value, asked) for kind, name, value, asked in plan]), 60
        )
    )


async def check_plan(client: KVClient, mine: bytes, plan: list[tuple[str, bytes, bytes, str]]) -> None:
    keys = [mine + name for name in NAMES]
    model, token = Model(), ""
    for kind, key, value, asked in plan:
        allowed = model.allows(key, asked)
        how = {**model.arguments(key, asked), "after": token}
        try:
            token = await _step(client, model, kind, key, value, how)
        except grpc.aio.AioRpcError as failure:
            refusal = refusal_of(failure)
            if refusal.reason == "condition_failed":
                assert not allowed
                assert refusal.fields["actual"] == str(model.version(key))
            else:
                assert refusal.reason == "not_a_number"
                assert model.updated(key, kind, value) is None
        else:
            assert allowed
        found = await client.get_many(keys, after=token)
        assert {
            entry.key: (entry.value, entry.version) for entry in found.entries if entry.version >= 0
        } == model.entries
    pages = await client.scan(prefix=mine, after=token, level=kv.KV_LEVEL_STRONG)
    scanned = [(entry.key, entry.value, entry.version) for page in pages for entry in page.entries]
    assert scanned == [(key, *model.entries[key]) for key in sorted(model.entries)]


async def _step(client: KVClient, model: Model, kind: str, key: bytes, value: bytes, how: dict[str, Any]) -> str:
    """Make one call and note it; the token of its reply."""
    if kind == "put":
        put = await client.put(key, value, **how)
        model.entries[key] = (value, put.version)
        return put.token
    if kind == "delete":
        deleted = await client.delete(key, **how)
        assert deleted.version == ABSENT
        model.entries.pop(key, None)
        return deleted.token
    if kind == "group":
        after = how.pop("after")
        second, third = key[:-1] + b"b", key[:-1] + b"c"
        group = await client.write(
            kv.KVWrite(key=key, put=value, **how),
            kv.KVWrite(key=second, append=b"g"),
            kv.KVWrite(key=third, delete=True),
            after=after,
        )
        model.entries[key] = (value, group.results[0].version)
        model.entries[second] = (model.entries.get(second, (b"", 0))[0] + b"g", group.results[1].version)
        model.entries.pop(third, None)
        return group.token
    operand: Any = value if kind == "append" else number(int(value))
    done = await client.update(key, **{kind: operand}, **how)
    after_it = model.updated(key, kind, value)
    assert after_it is not None
    assert done.value == (b"%d" % len(after_it) if kind == "append" else after_it)
    model.entries[key] = (after_it, done.version)
    return done.token
