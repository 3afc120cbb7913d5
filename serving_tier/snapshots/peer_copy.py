"""A copy of a live peer's index, as a stream: what it holds at least, the files' bytes in order, the manifest.

It is a snapshot that is never stored: taken when it is asked for, checked like one, installed like one. An
implementation of `CopySource` carries the stream (`duramen.v1.Node/Copy`).

The first pieces are on their way while LMDB writes the next ones, so the manifest, which has the checksum of each,
comes last. LMDB writes into a file at the disk's pace and not at the receiver's: a read transaction that lasts keeps
LMDB from using pages again, and the index would grow. The structure of the pages is checked by the receiver alone, who
has to do that anyway: it trusts nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from log_tier.concurrency.broadcast import Broadcast
from log_tier.concurrency.tasks import end_tasks
from log_tier.concurrency.threads import Progress, Stop, in_thread
from log_tier.model.errors import SnapshotDamaged
from log_tier.model.identifiers import FIRST, Offset, PartitionId
from serving_tier.disk import NODE_DISK
from serving_tier.names import DATA_FILE, INDEX_FILES, MARKER_FILE, copy_folder
from serving_tier.snapshots.contents import FileReceipt
from serving_tier.snapshots.install import check_identity, receiving
from serving_tier.snapshots.local_disk import Folders, begin_writing, sync_file, write_whole
from serving_tier.snapshots.manifest import (
    PIECE_BYTES,
    SnapshotFile,
    SnapshotManifest,
    format_manifest,
    parse_manifest,
)
from serving_tier.snapshots.take import Reading, copied_index, new_snapshot_id

__all__ = ["CopyPart", "CopySource", "install_copy", "send_copy"]


class CopyPart(NamedTuple):
    """One message of a copy."""

    manifest: bytes = b""
    """In the last one, and only there: `format_manifest`."""
    file: str = ""
    data: bytes = b""
    """The next `PIECE_BYTES` of `file`; the last part of a file may be shorter."""
    offset: Offset = FIRST
    """In the first one: the copy holds at least what is up to there."""
    bytes: int = 0
    """In the first one: how many there will be, about."""


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
    """The sending side: a fresh copy of a live index, sent while it is made. Close it with `aclose()`, which removes
    the copy.

    Raises what `take_snapshot` raises, and `Overloaded` where the index stops being the live version meanwhile.
    """
    growth = _Growth()
    copy_id = new_snapshot_id()
    folder = copy_folder(work_folder, copy_id)
    begin = await in_thread(lambda _: _begin(reading))
    async with AsyncExitStack() as made:
        copied = copied_index(
            reading,
            table_name=table_name,
            work_folder=work_folder,
            snapshot_id=copy_id,
            progress=growth.progress,
            sent=True,
        )
        making = asyncio.create_task(made.enter_async_context(copied), name=f"a copy of {table_name} for a peer")
        making.add_done_callback(lambda _: growth.moved.notify_all())
        try:
            yield begin
            await growth.reaches(PIECE_BYTES, making)
            # Opened here, and read by threads that are waited for: a caller that goes away loses no open file.
            with open(folder / DATA_FILE, "rb", 0) as data:  # noqa: ASYNC230 - some µs
                sent = 0
                coming = _next_piece(data, sent, growth, making)
                try:
                    while piece := await coming:
                        sent += len(piece)
                        coming = _next_piece(data, sent, growth, making)  # while this one is sent
                        yield CopyPart(file=DATA_FILE, data=piece)
                finally:
                    await _given_up(coming)
            _, manifest = await making
            yield CopyPart(file=MARKER_FILE, data=await in_thread(lambda _: (folder / MARKER_FILE).read_bytes()))
            yield CopyPart(manifest=format_manifest(manifest))
        finally:
            await _given_up(making)


def _begin(reading: Reading) -> CopyPart:
    with reading() as index:
        return CopyPart(offset=index.applied, bytes=index.statistics().bytes_used)


class _Growth:
    """How much of a copy has been written. The thread that writes it reports; one event loop waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.moved = Broadcast()
        self.size = 0
        """Bytes that may be read."""

    def progress(self, _phase: str, done: int, _total: int) -> None:
        """A `Progress` of `copied_index`."""
        self.size = done
        self._loop.call_soon_threadsafe(self.moved.notify_all)

    async def reaches(self, size: int, making: asyncio.Task[Any]) -> None:
        """Return when so much may be read, or all is written. Raises what `making` raises."""
        while self.size < size:
            if making.done():
                making.result()
                return
            await self.moved.wait()


def _next_piece(data: Any, sent: int, growth: _Growth, making: asyncio.Task[Any]) -> asyncio.Task[bytes]:
    async def read() -> bytes:
        await growth.reaches(sent + PIECE_BYTES, making)
        return await in_thread(lambda _: cast("bytes", data.read(PIECE_BYTES)))

    return asyncio.create_task(read(), name="the next piece")


async def install_copy(
    parts: AsyncIterator[CopyPart],
    folder: Path,
    *,
    peer: str,
    partition: PartitionId,
    accept: Callable[[Offset], None] = lambda _: None,
    progress: Progress | None = None,
    folders: Folders = Folders(),  # noqa: B008  (immutable)
) -> SnapshotManifest:
    """The receiving side: check what comes piece by piece and make it the index folder `folder`; return its manifest.

    `accept` raises for an offset that is of no use. It is asked twice: before any bytes are taken, with an offset that
    the copy has at least, and with the copy's own when that is known.
    Raises `SnapshotDamaged` for a stream that is not what its manifest says, and whatever `parts` raises; `folder` is
    then what it was.
    """
    where = f"the copy from {peer}"
    begin = await anext(parts, None)
    if begin is None or begin.manifest or begin.file:
        raise SnapshotDamaged(f"{where} does not begin as one: use another source", file=where)
    accept(begin.offset)
    manifest: SnapshotManifest | None = None
    async with receiving(folder, lambda: manifest, folders=folders) as incoming:
        receiver = _Receiver(parts, incoming, where, lambda done: _tell(progress, peer, done, begin.bytes))
        manifest = await receiver.run()
        check_identity(manifest, partition=partition)
        accept(manifest.offset)
        for said, received in zip(manifest.files, receiver.received, strict=True):
            said.check_received(received, f"{said.name} in {where}")
    return manifest


def _tell(progress: Progress | None, peer: str, done: int, total: int) -> None:
    if progress is not None:
        progress(f"copying from {peer}", done, max(done, total))


class _Receiver:
    """Takes the files of a copy, in their order, and the manifest behind them."""

    def __init__(self, parts: AsyncIterator[CopyPart], incoming: Path, where: str, took: Callable[[int], None]) -> None:
        self._parts, self._incoming, self._where, self._took = parts, incoming, where, took
        self.received: list[SnapshotFile] = []
        """What came of each file."""

    async def run(self) -> SnapshotManifest:
        """Take all; return the manifest, with which nothing was compared yet. Raises `SnapshotDamaged`."""
        done = 0
        part = await anext(self._parts, None)
        for name in INDEX_FILES:
            receipt = FileReceipt(name, f"{name} in {self._where}")
            with NODE_DISK.get().create(self._incoming / name) as out:
                while part is not None and part.file == name:
                    done += len(part.data)
                    part = await _taken(partial(_take, receipt, out, part.data), self._parts)
                    self._took(done)
                self.received.append(await in_thread(partial(_finish, receipt, out)))
        if part is None:
            raise SnapshotDamaged(f"{self._where} ends before its manifest: use another source", file=self._where)
        manifest = parse_manifest(part.manifest, self._where)
        if await anext(self._parts, None) is not None:
            raise SnapshotDamaged(f"{self._where} goes on after its manifest: use another source", file=self._where)
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


def _take(receipt: FileReceipt, out: Any, piece: bytes, _: Stop) -> None:
    receipt.feed(piece)
    write_whole(out, piece)
    begin_writing(out.fileno())


def _finish(receipt: FileReceipt, out: Any, _: Stop) -> SnapshotFile:
    found = receipt.finish()
    sync_file(out)
    return found
