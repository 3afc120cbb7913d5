"""Keep what an audit found that its caller alone could make: of an export, or of a client's session."""

from __future__ import annotations

from log_tier.catalog.catalog import Catalog
from log_tier.catalog.commands import NoteAudit
from log_tier.model.errors import InvalidRequest, TableNotFound
from log_tier.model.identifiers import Offset, Partition
from log_tier.privacy.masked_url import check_no_secret
from log_tier.tally.audit_note import AuditedPart, AuditNote, noted_of
from router.admin.planners.cluster_view import Situation
from router.proto import admin_pb2 as pb

__all__ = ["audited_of", "note_audit"]


async def note_audit(
    catalog: Catalog, situation: Situation, request: pb.AdminNoteAuditRequest
) -> pb.AdminNoteAuditReply:
    """Hand the note to the catalog, whose fold keeps it. What is noted is its caller's word: it takes the same grant as
    to drop the table.

    Raises `TableNotFound` where the table that was audited is not the one that has the name now, `InvalidRequest` for
    what can be no note, and what the catalog raises.
    """
    table = situation.table(request.table)
    if request.table_id and request.table_id != table.id:
        raise TableNotFound(
            f"table {table.name} was dropped and made anew since it was audited: audit it again", table=table.name
        )
    parts = tuple(
        AuditedPart(Partition(each.partition), each.rows, Offset(each.until), each.verdict, each.reason)
        for each in request.parts
    )
    note = AuditNote(request.tier, request.name, parts)
    if wrong := note.wrong(table.partitions):
        raise InvalidRequest(wrong)
    if "://" in note.name:
        check_no_secret(note.name)
    _, cluster = await catalog.submit(NoteAudit(table.id, note))
    return pb.AdminNoteAuditReply(version=cluster.version)


def audited_of(notes: tuple[AuditNote, ...], partition: int) -> list[pb.AdminAudited]:
    """What there is to say of a partition: of each tier the newest, and all that differ."""
    return [
        pb.AdminAudited(
            tier=note.tier,
            name=note.name,
            rows=part.rows,
            until=part.until,
            verdict=part.verdict,
            reason=part.reason,
            checked_ms=part.checked_ms,
        )
        for note, part in noted_of(notes, partition)
    ]
