"""One look at a server, as a value: what was observed, and what it says together with earlier ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from duramen.server.console.node_facts import NodeFacts
from duramen.server.sight.observed import Observed
from duramen.server.sight.status_history import LogRates, PartitionFigures

__all__ = ["Look", "Trends"]


class Trends(NamedTuple):
    """What several looks say together."""

    partitions: Mapping[str, PartitionFigures]
    """By their names."""
    log_rates: LogRates | None
    disk_full_in_s: float | None


class Look(NamedTuple):
    """One look at the server."""

    number: int
    """Rises by one with each look."""
    observed: Observed
    trends: Trends | None
    """What it says together with earlier ones; None: nobody watched."""
    nodes: Mapping[str, NodeFacts]
    """What the nodes have said of themselves; empty where there are none."""
