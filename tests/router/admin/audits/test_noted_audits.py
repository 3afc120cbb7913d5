"""Notes of audits through any server: kept by the catalog, shown with the partitions, and only of the table itself."""

from __future__ import annotations

from typing import Any

import pytest
from kit.cluster.operated import Operated, operated

from log_tier.model.errors import InvalidRequest, TableNotFound
from log_tier.tally.audit_note import NAME_MAX
from router.proto import admin_pb2 as pb


def note(rows: int = 10, verdict: str = "equal", **fields: Any) -> pb.AdminNoteAuditRequest:
    part = pb.AdminAuditedPart(partition=0, rows=rows, until=rows - 1, verdict=verdict, reason=fields.pop("reason", ""))
    given = {"table": "flights", "tier": "export", "name": "s3://lake/flights", "parts": [part]} | fields
    return pb.AdminNoteAuditRequest(**given)


def table_id(cluster: Operated) -> str:
    return cluster.nodes["n1"].data_plane.catalog.map.find("flights").id


async def audits(cluster: Operated) -> list[tuple[str, int, str, str]]:
    (shown, *_) = await cluster.admin.partitions("flights")
    return [(each.name, each.rows, each.verdict, each.reason) for each in shown.audits]


async def test_a_note_is_shown_until_it_is_replaced_forgotten_or_the_table_is_dropped(tmp_path: Any) -> None:
    async with operated(tmp_path, nodes=("n1",)) as cluster:
        await cluster.database.create_table("flights", partitions=2, replicas=1)
        await cluster.database.create_table("ships", partitions=1, replicas=1)
        assert await audits(cluster) == []
        version = await cluster.admin.note_audit(note(10, "different", reason="offsets 3 to 4"))
        assert await audits(cluster) == [("s3://lake/flights", 10, "different", "offsets 3 to 4")]
        again = await cluster.admin.note_audit(note(12))
        assert again > version
        assert await audits(cluster) == [("s3://lake/flights", 12, "equal", "")]
        (shown, other) = await cluster.admin.partitions("flights")
        assert shown.audits[0].checked_ms > 1_700_000_000_000, "by the catalog's log, not by its caller"
        assert list(other.audits) == [] == list((await cluster.admin.partitions("ships"))[0].audits)
        changes = await cluster.admin.changes()
        assert changes.commands[-1].command == "note-audit"
        assert changes.commands[-1].detail == "export=s3://lake/flights partitions=1"
        await cluster.admin.note_audit(note(parts=[]))
        assert await audits(cluster) == []


async def test_a_table_that_was_made_anew_gets_no_note_of_the_old_one(tmp_path: Any) -> None:
    async with operated(tmp_path, nodes=("n1",)) as cluster:
        await cluster.database.create_table("flights", partitions=1, replicas=1)
        before = table_id(cluster)
        await cluster.admin.note_audit(note(10, table_id=before))
        assert len(await audits(cluster)) == 1
        await cluster.database.drop_table("flights")
        await cluster.database.create_table("flights", partitions=1, replicas=1)
        assert await audits(cluster) == []
        with pytest.raises(TableNotFound, match="flights was dropped and made anew since it was audited"):
            await cluster.admin.note_audit(note(10, table_id=before))
        await cluster.admin.note_audit(note(10, table_id=table_id(cluster)))
        assert len(await audits(cluster)) == 1


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        (note(table="ships"), TableNotFound, "ships"),
        (note(tier="index"), InvalidRequest, "the tier of an audit"),
        (note(name="x" * (NAME_MAX + 1)), InvalidRequest, "the name of an audit"),
        (note(name="s3://key:secret@lake/x"), InvalidRequest, "holds a secret"),
        (note(verdict="unverified"), InvalidRequest, "the verdict of an audit"),
        (note(reason="x" * 301), InvalidRequest, "the reason of an audit"),
        (note(parts=[pb.AdminAuditedPart(partition=9)]), InvalidRequest, "there is no 9"),
    ],
)
async def test_what_is_no_note_is_refused(tmp_path: Any, wrong: Any, error: Any, why: str) -> None:
    async with operated(tmp_path, nodes=("n1",)) as cluster:
        await cluster.database.create_table("flights", partitions=1, replicas=1)
        with pytest.raises(error, match=why):
            await cluster.admin.note_audit(wrong)
        assert await audits(cluster) == []
