"""The file of recorded status streams: gzip over records of time, node, length and message; no message: it was lost."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from serving_tier.proto import node_pb2

__all__ = ["RECORDED", "SaidStatus", "read_recording", "write_recording"]

RECORDED = Path(__file__).with_name("recorded.bin.gz")
_HEAD = struct.Struct("<fBI")


class SaidStatus(NamedTuple):
    """What a node said."""

    at_s: float
    """Since the recording began."""
    node: int
    message: node_pb2.NodeStatus | None
    """None: its stream ended."""


def write_recording(said: Iterable[SaidStatus], path: Path = RECORDED) -> None:
    data = bytearray()
    for at_s, node, message in said:
        text = b"" if message is None else message.SerializeToString(deterministic=True)
        data += _HEAD.pack(at_s, node, len(text)) + text
    path.write_bytes(gzip.compress(bytes(data), mtime=0))


def read_recording(path: Path = RECORDED) -> list[SaidStatus]:
    data, at = gzip.decompress(path.read_bytes()), 0
    said: list[SaidStatus] = []
    while at < len(data):
        at_s, node, size = _HEAD.unpack_from(data, at)
        at += _HEAD.size + size
        said.append(SaidStatus(at_s, node, node_pb2.NodeStatus.FromString(data[at - size : at]) if size else None))
    return said
