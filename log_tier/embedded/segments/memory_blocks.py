"""Keeping freed memory for the next chunk.

glibc gives a block of more than 128 KiB back to the kernel as soon as it is freed, and the next chunk faults its pages
in again: for a reader of 1 MiB chunks that costs five times what reading the bytes does. The bound moves by itself:
once a block of nearly 32 MiB (the most that glibc adapts to) was freed, all up to that size are kept for reuse.
"""

from __future__ import annotations

from functools import cache
from typing import Final

__all__ = ["keep_freed_blocks"]

_BLOCK_BYTES: Final = 31 << 20


@cache
def keep_freed_blocks() -> None:
    """Free one large block, once per process. It is never touched, so it never takes real memory."""
    bytes(_BLOCK_BYTES)
