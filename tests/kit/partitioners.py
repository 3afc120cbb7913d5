"""The partitioners that tests go through: each kind, and the one of fields with two counts."""

from __future__ import annotations

from typing import Final

from log_tier.model.partitioner import Partitioner

__all__ = ["PARTITIONERS"]

PARTITIONERS: Final[tuple[Partitioner, ...]] = ("slot", "murmur2", "fields:1", "fields:2")
