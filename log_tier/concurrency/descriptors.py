"""Open files of this process: how many it may have, and who gets how many of them.

Everything that a process opens counts against one limit (`RLIMIT_NOFILE`): segments, LMDB environments, connections.
Connections come from outside and would take all of it, so each consumer has a share, and stays within it. Of what is
left after 64 for the process itself:

    1/8  segment files that are open for writing      the least recently written one is closed for the next
    3/8  LMDB environments, three descriptors each    the least recently read one is closed for the next
    2/8  connections over the Redis protocol          one more is refused
    1/8  connections over gRPC                        one more is refused
    1/16 connections over HTTP                        one more is refused
    1/16 everything else                              cold reads, checkpoints, copies

A share is what its owner may keep open for its own convenience. If the process is out of descriptors all the same, the
owner refuses the call before anything is written, with `out_of_descriptors`.
"""

from __future__ import annotations

import errno
import resource
from typing import Final, NamedTuple

from log_tier.model.errors import Overloaded

__all__ = [
    "ENVIRONMENT_DESCRIPTORS",
    "OUT_OF_DESCRIPTORS",
    "DescriptorShares",
    "descriptor_shares",
    "out_of_descriptors",
    "raise_descriptor_limit",
]

OUT_OF_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""The errors that pass when a file is closed: of this process, and of the whole machine."""

ENVIRONMENT_DESCRIPTORS: Final = 3
"""Of an LMDB environment: its file twice, once for writes that are on stable storage when they return, and its lock."""

# What a server has open before it has opened anything of a table: listeners, event loops, gRPC's own, some 40.
_PROCESS: Final = 64

# Below this a share would be nothing: eight segments, eight environments, 28 connections.
_LIMIT_MIN: Final = 128

# "No limit" is a number too: more than this many files no process of ours opens.
_LIMIT_MAX: Final = 1 << 20


class DescriptorShares(NamedTuple):
    """How many files each part of the process may keep open."""

    limit: int
    """The limit of open files of the process."""
    segments: int
    """Segment files open for writing."""
    environments: int
    """LMDB environments. Each takes `ENVIRONMENT_DESCRIPTORS`."""
    resp_connections: int
    """Connections over the Redis protocol."""
    grpc_connections: int
    """Connections over gRPC."""
    http_connections: int
    """Connections over HTTP."""


def descriptor_shares(limit: int | None = None) -> DescriptorShares:
    """The shares of a limit; None: of this process' soft limit, as it is now."""
    if limit is None:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        limit = _LIMIT_MAX
    part = (min(max(limit, _LIMIT_MIN), _LIMIT_MAX) - _PROCESS) // 8
    return DescriptorShares(limit, part, 3 * part // ENVIRONMENT_DESCRIPTORS, 2 * part, part, part // 2)


def raise_descriptor_limit() -> int:
    """Raise the soft limit of this process to its hard limit, and return it.

    For a server, which owns its process. A library leaves the limit alone: a program that uses select() breaks on
    descriptors above 1023.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):  # some systems cap it below the hard limit: what there was stays
            return soft
    return hard


def out_of_descriptors(what: str, error: OSError) -> Overloaded:
    """The error for a call that could not have a descriptor. `what` was not done, and begins the sentence."""
    limit = descriptor_shares().limit
    return Overloaded(
        f"{what}: {error.strerror}. Nothing was written. This process may have {limit} files open: close connections "
        "and try again, or raise the limit (ulimit -n, LimitNOFILE=)",
        limit=limit,
    )
