"""What is shown of a node of the cluster, from the status document that it sent. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["NodeFacts", "facts_of_status"]


class NodeFacts(NamedTuple):
    """What a node said of itself, without anything of its tables: everybody may see it who sees the nodes."""

    alive_since_s: float | None = None
    """This server's uptime when the node was found, or lost; None: before this server looked first."""
    answered_s: float | None = None
    """This server's uptime when it last said the following; None: it never did."""
    error: str = ""
    """Why it did not answer the last question; empty: it did."""
    ready: bool | None = None
    troubles: tuple[str, ...] = ()
    """The kinds of its troubles, the most urgent first."""
    partitions: int | None = None
    """How many it has, and how many of them are not ready."""
    partitions_unready: int | None = None
    disk_free_bytes: int | None = None
    disk_full_bytes: int | None = None
    memory_bytes: int | None = None


def facts_of_status(document: Mapping[str, Any], answered_s: float) -> NodeFacts:
    """What of a status document is shown to everybody. Pure. Raises `LookupError`, `TypeError`,
    `ValueError` and `OverflowError` for one that is none.
    """
    disk, partitions = document["disk"], document["partitions"]
    return NodeFacts(
        answered_s=answered_s,
        ready=bool(document["ready"]),
        troubles=tuple(str(each["kind"]) for each in document["troubles"]),
        partitions=len(partitions),
        partitions_unready=sum(each["state"] != "ready" for each in partitions),
        disk_free_bytes=None if disk is None else int(disk["free_bytes"]),
        disk_full_bytes=None if disk is None else int(disk["full_bytes"]),
        memory_bytes=None if document["memory_bytes"] is None else int(document["memory_bytes"]),
    )
