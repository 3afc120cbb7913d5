"""When the next healing or relief may begin, so that they copy no more than so many bytes a second. Pure."""

from __future__ import annotations

from log_tier.catalog.cluster_map import ClusterMap
from router.admin.planners.heal import newest_of

__all__ = ["Pace"]


class Pace:
    """A job copies as fast as its nodes can; the next one begins when its bytes would have passed at the rate."""

    def __init__(self, bytes_s: int, *kinds: str) -> None:
        """`bytes_s`: bytes a second, 0: no bound. `kinds`: of the jobs whose bytes count."""
        self._bytes_s, self._kinds = bytes_s, kinds
        self._seen: int | None = None
        self._free_s = 0.0

    def left_s(self, cluster: ClusterMap, now_s: float) -> float:
        """Seconds until the next one may begin. `now_s` rises from call to call."""
        newest = newest_of(cluster, *self._kinds)
        if newest is not None and newest.id != self._seen:
            # Another router may have begun it, and this one may have just started: then it waits a little longer.
            self._seen = newest.id
            size = newest.arguments.get("bytes")
            copied = size if isinstance(size, int) else 0
            after_s = now_s + (copied / self._bytes_s if self._bytes_s else 0.0)
            # Of two kinds, the newer one may be the smaller one.
            self._free_s = max(self._free_s, after_s)
        return max(0.0, self._free_s - now_s)
