"""Verifying every snapshot of a store: its manifest, and the checksums and the structure of its files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from log_tier.model.errors import DuramenError
from log_tier.model.files.finding import FileFinding
from serving_tier.snapshots.snapshot_store import SnapshotStore

__all__ = ["verify_snapshots"]


async def verify_snapshots(store: SnapshotStore) -> AsyncIterator[FileFinding | None]:
    """For each snapshot what is wrong with it, or None. Reads all of them. Raises `SnapshotStoreUnavailable`.

    The leftover of a put that died is a note: the next snapshot of that partition removes it.
    """
    for stored in await store.snapshots():
        try:
            await store.verify(await store.read_manifest(stored.path))
        except DuramenError as error:
            yield FileFinding.of(error, Path(store.url) / stored.path)
        else:
            yield None
    for stored in await store.unfinished():
        place = Path(store.url) / stored.path
        yield FileFinding(place, f"{place} has no manifest: a snapshot that was not finished, which nobody uses", False)
