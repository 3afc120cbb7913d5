"""What can go wrong with the disk of a node: pure."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final, Literal

__all__ = [
    "COMMIT",
    "ERRORS",
    "FILL_INDEX",
    "GROWING",
    "NODE_FAULTS",
    "SHARED_STORE",
    "NodeFault",
    "NodeFaultKind",
    "can_meet",
]

NodeFaultKind = Literal["failed", "no room", "refused", "short", "full", "end"]

NODE_FAULTS: Final[dict[NodeFaultKind, str]] = {
    "failed": "a call fails: EIO",
    "no room": "a call that needs room fails: ENOSPC",
    "refused": "a call is refused: EACCES",
    "short": "a write takes a part of what it was given",
    "full": "every call that needs room fails for a while: ENOSPC",
    "end": "the process ends before a call",
}

GROWING: Final = ("create", "write", "link", "make_folder")
"""Calls that need room on the disk."""

COMMIT: Final = "commit"
"""A write transaction of LMDB. Only a fault that names it meets it: most calls are commits."""
FILL_INDEX: Final = "fill_index"
"""The write transaction before which a new index lacks only its content. Only a fault that names it meets it."""
SHARED_STORE: Final = "shared store"
"""The use of paths that are not below a node's own folder."""
_NAMED: Final = (COMMIT, FILL_INDEX)

ERRORS: Final[dict[NodeFaultKind, int]] = {
    "failed": errno.EIO,
    "no room": errno.ENOSPC,
    "refused": errno.EACCES,
    "full": errno.ENOSPC,
    "end": errno.EIO,
}
"""What the call that meets a fault fails with."""

_MET_BY: Final[dict[NodeFaultKind, tuple[str, ...]]] = {
    "no room": (*GROWING, *_NAMED),
    "full": GROWING,
    "short": ("write",),
}


def can_meet(kind: NodeFaultKind, call: str) -> bool:
    """Can a call of this name meet a fault of this kind?"""
    return call in _MET_BY.get(kind, (call,))


@dataclass(frozen=True)
class NodeFault:
    """Something goes wrong at a node's disk: at the `steps`th call after `at_s` that can meet it, from 0."""

    at_s: float
    node: str
    kind: NodeFaultKind
    steps: int
    seconds: float = 0.0
    """How long a disk is full."""
    call: str = ""
    """Only calls of this name meet it; empty: any."""
    use: str = ""
    """Only calls for paths of this use (`serving_tier.names.purpose`, or `SHARED_STORE`) meet it; empty: any."""

    def may_meet(self, call: str, use: str) -> bool:
        """Can a call of this name, for a path of this use, meet it?"""
        wanted = self.call or (call if call not in _NAMED else "")
        return can_meet(self.kind, call) and wanted == call and self.use in ("", use)
