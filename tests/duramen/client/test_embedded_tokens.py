"""The token of an embedded database names all that its client was shown, also by reads in the caller's own thread."""

from __future__ import annotations

from pathlib import Path

from kit.cluster.one_machine import DEADLINE_S, one_machine

from duramen.client.database import Database
from duramen.client.model.session import Session
from log_tier.model.tokens import Token
from router.data.direct_reads import DirectReads
from router.data.local_data import LocalData
from router.data.seam import NOT_FRESH


def client_of(data_plane: LocalData) -> Database:
    """A client as `duramen.open` makes it."""

    def direct(name: str, session: Session) -> DirectReads:
        return DirectReads(data_plane, name, session.offsets, session.saw)

    return Database(data_plane, timeout=DEADLINE_S, compress=False, direct=direct)


async def test_what_another_client_wrote_and_a_direct_read_showed_is_in_the_token(tmp_path: Path) -> None:
    async with one_machine(tmp_path) as data_plane:
        reader, writer = client_of(data_plane), client_of(data_plane)
        table = await writer.create_table("flights", partitions=4)
        # The blocking face asks for direct reads once for each `Table`; the first read looks the table up.
        direct = reader.table("flights").direct_reads()
        assert direct is not None
        assert direct.get(b"k") is NOT_FRESH
        assert direct.get(b"k") is None

        done = await table.put(b"k", b"v")
        assert await table.get(b"k", after=done.token) == b"v", "the replica here has applied it"
        assert direct.get(b"k") == b"v"
        del direct
        seen = Token.parse(reader.token()).offsets(done.table_id)
        assert seen[done.partition] >= done.offset
