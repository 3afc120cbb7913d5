"""A journal's room never holds many zeros in a row, so zeros there say that the disk has lost what was written. Pure.

A disk that loses a block, a page or the end of a file shows zeros in its place. Were zeros also what room looks like in
which nothing was written yet, acknowledged frames could vanish without a sign. So:

- Room is filled with `UNUSED` before the first frame is written in it, and the header says how far it was.
- A frame whose entries have `_ZEROS` zeros in a row is stored under a **key**: two bytes that are added to all of
  theirs, by exclusive or. There is always a key under which no such run is left.
- A file that is used again keeps what its older generation wrote, which has no such run either.

A torn frame consists of sectors that are new and of sectors that are old, so what it leaves has no longer run than an
old and a new one that meet: `_LOST` zeros in a row are no tear.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

__all__ = ["PROBE_BYTES", "lost_at", "restored", "unused_room", "without_zeros"]

UNUSED: Final = b"DuJ: unused room"
_ZEROS: Final = bytes(40)
"""No frame has so many zeros in a row in its entries; its head has some 20."""
_LOST: Final = bytes(128)
"""More zeros than where an old sector and a new one meet. Every frame of two entries is larger."""
PROBE_BYTES: Final = len(_LOST)
"""Where a frame is to begin, so many bytes behind it are looked at."""


def unused_room(size: int) -> bytes:
    """What `size` bytes of room look like before they are used."""
    return (UNUSED * (size // len(UNUSED) + 1))[:size]


def lost_at(data: bytes, start: int, end: int) -> int | None:
    """Where zeros begin, between `start` and `end`, that nothing has written; None: nowhere."""
    at = data.find(_LOST, start, end)
    return None if at < 0 else at


def without_zeros(payload: bytes) -> tuple[int, bytes]:
    """The key, and the payload under it. 0: as it is, which is nearly always so."""
    if _ZEROS not in payload:
        return 0, payload
    key = next(key for key in _keys(payload) if not _has_run(payload, key))
    return key, restored(payload, key)


def _keys(payload: bytes) -> Iterator[int]:
    """Keys to try: as many as anybody needs, in an order that nobody can know who chooses what the payload holds.

    A run of the payload rules out two keys at most, and it has room for some 10,000 runs. The first keys are drawn by a
    digest of all of it, so each of them fails with a third's chance; were they always the same ones, somebody could
    write a value for which the commits of all others wait while thousands are tried. Behind them is every key.
    """
    digest = blake2b(payload).digest()
    yield from filter(None, (int.from_bytes(digest[at : at + 2], "little") for at in range(0, len(digest), 2)))
    yield from range(1, 0x10000)


def _has_run(payload: bytes, key: int) -> bool:
    """Would zeros be left under this key?"""
    return any(_repeated(each, len(_ZEROS)) in payload for each in (key, key >> 8 | (key & 0xFF) << 8))


def restored(payload: bytes, key: int) -> bytes:
    """The payload that was stored under a key; or what is to be stored."""
    if not key:
        return payload
    added = int.from_bytes(_repeated(key, len(payload)), "little")
    return (int.from_bytes(payload, "little") ^ added).to_bytes(len(payload), "little")


def _repeated(key: int, size: int) -> bytes:
    return (key.to_bytes(2, "little") * (size // 2 + 1))[:size]
