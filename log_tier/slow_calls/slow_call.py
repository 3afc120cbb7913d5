"""One slow call, as it is kept. Immutable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from log_tier.model.identifiers import Offset, PartitionId
from log_tier.rpc.messages.slow_call_sink import CallEnd

__all__ = ["KEY_BYTES_MAX", "NO_SUBJECT", "CallKind", "CallSubject", "PartName", "SlowCall"]

KEY_BYTES_MAX: Final = 32
"""Of a key: enough to find what it is about, and no copy of what users store."""

CallKind = Literal["read", "write", "scan", "wait", "other"]

PartName = Literal["queued", "synced", "waited", "read", "rest"]
"""Until the commit was taken; write and sync in the log; until a replica had applied an offset; the index; all else."""


class CallSubject(NamedTuple):
    """What a call is about, as far as it is known."""

    table: str | None
    """The first table; None: of none, or of one that is not there."""
    places: Sequence[PartitionId] = ()
    key: bytes | None = None
    """The beginning of its first key."""
    items: int = 1
    """Keys, records or parts; of RESP: words."""


NO_SUBJECT: Final = CallSubject(None, items=0)


@dataclass(frozen=True, slots=True)
class SlowCall:
    """A call that took at least as long as the threshold."""

    number: int
    """Rises by one; the first is 0."""
    ended_ms: int
    """When, by the server's clock."""
    took_s: float
    what: str
    """`KV/Put`, `KeyValue/Read`; of RESP the command: `incr`."""
    protocol: Literal["grpc", "resp"]
    outcome: CallEnd
    subject: CallSubject
    offset: Offset | None
    """A write's first one; the one that a read had to wait for."""
    user: str
    """Empty: nobody proved who it is."""
    peer: str
    """host:port of the client."""
    parts: Mapping[PartName, float | None] = field(default_factory=dict)
    """Seconds. Absent: the call has no such part; None: this server does not know."""
    client: str = ""
    """The name that a client of RESP gave itself."""
    key_text: str = ""
    """The key as its fields, `["UA",…` where it was cut; empty: it has none."""

    @property
    def partition(self) -> int | None:
        """The partition of a call that is about a single one."""
        places = self.subject.places
        return places[0].partition if len(places) == 1 else None
