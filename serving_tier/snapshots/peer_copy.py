"""A copy of a live peer's index, as a stream: the manifest first, then the files' bytes in order.

It is a snapshot that is never stored: taken when it is asked for, checked like one, installed like one. An
implementation of `CopySource` carries the stream (`duramen.v1.Node/Copy`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from log_tier.concurrency.tasks import end_tasks
from log_tier.concurrency.threads import Progress, Stop, in_thread
from log_tier.model.errors import SnapshotDamaged
from log_tier.model.identifiers import PartitionId
from serving_tier.disk import NODE_DISK
from serving_tier.snapshots.contents import FileCheck
from serving_tier.snapshots.install import check_identity, receiving
from serving_tier.snapshots.local_disk import Folders, begin_writing, sync_file, write_whole
from serving_tier.snapshots.manifest import (
    PIECE_BYTES,
    SnapshotManifest,
    format_manifest,
    parse_manifest,
)
from serving_tier.snapshots.take import Reading, copied_index

__all__ = ["CopyPart", "CopySource", "install_copy", "send_copy"]


class CopyPart(NamedTuple):
    """One message of a copy."""

    manifest: bytes = b""
    """In the first one, and only there: `format_manifest`."""
    file: str = ""
    data: bytes = b""
    """The next `PIECE_BYTES` of `file`; the last part of a file may be shorter."""


class CopySource(Protocol):
    """A peer that holds a replica."""

    @property
    def name(self) -> str:
        """The node, for people."""
        ...

    def copy(self, partition: PartitionId) -> AsyncGenerator[CopyPart, None]:
        """A copy made now. Raises what the peer raises (`NotHosted`, …), or `Unavailable` where it is away."""
        ...


async def send_copy(reading: Reading, *, table_name: str, work_folder: Path) -> AsyncGenerator[CopyPart, None]:
    """The sending side: a fresh copy of a live index. Close it with `aclose()`, which removes the copy.

    Raises what `take_snapshot` raises before the first part.
    """
    async with copied_index(reading, table_name=table_name, work_folder=work_folder, synced=False) as made:
        folder, manifest = made
        yield CopyPart(manifest=format_manifest(manifest))
        for file in manifest.files:
            # Opened here, and read by threads that are waited for: a caller that goes away loses no open file.
            with open(folder / file.name, "rb", 0) as data:  # noqa: ASYNC230 - some µs
                coming = _next_piece(data)
                try:
                    while piece := await coming:
                        coming = _next_piece(data)  # while this one is sent
                        yield CopyPart(file=file.name, data=piece)
                finally:
                    await _given_up(coming)


def _next_piece(data: Any) -> asyncio.Task[bytes]:
    return asyncio.create_task(in_thread(lambda _: cast("bytes", data.read(PIECE_BYTES))), name="the next piece")


async def install_copy(
    parts: AsyncIterator[CopyPart],
    folder: Path,
    *,
    peer: str,
    partition: PartitionId,
    accept: Callable[[SnapshotManifest], None] = lambda _: None,
    progress: Progress | None = None,
    folders: Folders = Folders(),  # noqa: B008  (immutable)
) -> SnapshotManifest:
    """The receiving side: check what comes piece by piece and make it the index folder `folder`; return its manifest.

    `accept` is asked when the manifest is here, before any bytes are taken, and raises for one that is of no use.
    Raises `SnapshotDamaged` for a stream that is not what its manifest says, and whatever `parts` raises; `folder` is
    then what it was.
    """
    where = f"the copy from {peer}"
    first = await anext(parts, None)
    manifest = parse_manifest(b"" if first is None else first.manifest, where)
    check_identity(manifest, partition=partition)
    accept(manifest)
    done = 0
    async with receiving(folder, manifest, folders=folders) as incoming:
        part = await anext(parts, None)
        for file in manifest.files:
            check = FileCheck(file, f"{file.name} in {where}")
            with NODE_DISK.get().create(incoming / file.name) as out:
                while part is not None and part.file == file.name:
                    done += len(part.data)
                    part = await _taken(partial(_take, check, out, part.data), parts)
                    if progress is not None:
                        progress(f"copying from {peer}", done, manifest.bytes)
                await in_thread(partial(_finish, check, out))
        if part is not None:
            raise SnapshotDamaged(f"{where} goes on after its last file: use another source", file=where)
    return manifest


async def _taken(take: Callable[[Stop], None], parts: AsyncIterator[CopyPart]) -> CopyPart | None:
    """Take one piece in a thread while the next part comes, and return that."""
    taking = asyncio.create_task(in_thread(take), name="a piece that has come")
    try:
        following = await anext(parts, None)
    except BaseException:
        await _given_up(taking)
        raise
    await taking
    return following


async def _given_up(task: asyncio.Task[Any]) -> None:
    """End a task whose result nobody wants any more; it has ended when this returns."""
    await end_tasks(task)
    if not task.cancelled():
        task.exception()


def _take(check: FileCheck, out: Any, piece: bytes, _: Stop) -> None:
    check.feed(piece)
    write_whole(out, piece)
    begin_writing(out.fileno())


def _finish(check: FileCheck, out: Any, _: Stop) -> None:
    check.finish()
    sync_file(out)
