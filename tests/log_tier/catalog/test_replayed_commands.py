"""Commands of users that somebody reads from a real log and appends again: no right comes back, on no replica."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import RegisterNode
from log_tier.catalog.decisions import DECISIONS_MAX
from log_tier.embedded import EmbeddedLog
from log_tier.model.batch import decode_batch, encode_batch
from log_tier.model.batch_header import split_batches
from log_tier.model.identifiers import Offset, Partition
from log_tier.trust.trust_commands import (
    AddRole,
    AddToken,
    AddUser,
    AssignRole,
    GrantRights,
    RemoveUser,
    RevokeRights,
    RevokeToken,
    SetPassword,
    TrustCommand,
    UnassignRole,
)

DIGEST = "5f" * 32


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[EmbeddedLog]:
    async with await EmbeddedLog.open(tmp_path / "log") as opened:
        yield opened


async def recorded(log: EmbeddedLog, catalog: Catalog) -> list[bytes]:
    """What the catalog's log holds, as who has a copy of it can append it."""
    found: list[bytes] = []
    reader: Any = log.read(catalog.topic.partition(Partition(0)), Offset(0), follow=False)
    async with aclosing(reader) as chunks:
        async for chunk in chunks:
            found += [encode_batch(decode_batch(stored).columns) for stored in split_batches(chunk.data)]
    return found


async def change(catalog: Catalog, kind: type[TrustCommand], name: str, *fields: Any) -> None:
    await catalog.submit(kind(name, catalog.map.version, *fields))


async def revoked_users(catalog: Catalog) -> None:
    """Rights that were given, and everything taken away again."""
    await change(catalog, AddUser, "root", "hash", ("admin *",))
    await change(catalog, AddRole, "clerks", ("read orders",))
    await change(catalog, AddUser, "alice", "old-hash", ("read,write *",))
    await change(catalog, AssignRole, "alice", "clerks")
    await change(catalog, AddToken, "alice", "t1", DIGEST)
    await change(catalog, GrantRights, "alice", "admin orders")
    await change(catalog, RevokeToken, "alice", "t1")
    await change(catalog, UnassignRole, "alice", "clerks")
    for grant in ("read,write *", "admin orders"):
        await change(catalog, RevokeRights, "alice", grant)
    await change(catalog, SetPassword, "alice", "new-hash")
    await change(catalog, AddUser, "mallory", "", ("admin *",))
    await change(catalog, RemoveUser, "mallory")


@pytest.mark.parametrize("later", [0, DECISIONS_MAX + 1], ids=["known ids", "forgotten ids"])
async def test_no_right_comes_back(log: EmbeddedLog, later: int) -> None:
    catalog = await Catalog.open(log)
    await revoked_users(catalog)
    copies = await recorded(log, catalog)
    assert len(copies) == 13
    for number in range(later):
        await catalog.submit(RegisterNode("n1", f"host:{number}", "a"))
    trust = catalog.map.trust
    assert sorted(trust.users) == ["alice", "root"]
    assert (trust.users["alice"].grants, trust.users["alice"].roles, trust.users["alice"].tokens) == ((), (), ())
    # After each of them: all in their order would end as they did the first time.
    for batch in copies:
        done = await log.append(catalog.topic.partition(Partition(0)), batch)
        now = await catalog.wait_for(lambda cluster, at=done.base_offset: cluster.version >= at)  # type: ignore[misc]
        assert now.trust == trust
    fresh = await Catalog.open(log)
    assert fresh.map.trust == trust, "a server that folds it all from the beginning"
    # And users go on to be changed.
    await change(fresh, GrantRights, "alice", "read orders")
    assert len(fresh.map.trust.users["alice"].grants) == 1
    for each in (catalog, fresh):
        await each.close()
