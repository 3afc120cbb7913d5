"""How far a replica is proven to have all of the log. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from log_tier.model.identifiers import NOTHING, Offset

__all__ = ["NO_PROOF", "ReplicaProof"]


class ReplicaProof(NamedTuple):
    """What the comparisons of a replica with its log came to so far."""

    proven: Offset = NOTHING
    """Up to here everything that could be compared was compared."""
    differs: str = ""
    """Which offsets are not what the log holds; empty: all were equal."""


NO_PROOF: Final = ReplicaProof()
"""Nothing was compared yet."""
