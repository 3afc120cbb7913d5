"""Which test files begin: those whose tests take a processor for seconds each.

Workers take half of what another one has left, and each keeps the test that it has begun and the next one. Where these
are dear and last, the others wait for one worker. So what is dear comes first, in whole files, and neighbours stay
together, as they share what their module starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

__all__ = ["DEAR", "dear_first"]

DEAR: Final = (
    "tests/simulation/test_simulated_cluster.py",
    "tests/simulation/test_simulated_cluster_resp.py",
    "tests/simulation/test_simulation.py",
    "tests/duramen/resp/test_redis_clients.py",
    "tests/duramen/resp/test_resp_cluster.py",
    "tests/duramen/server/console/pages/test_large_cluster.py",
    "tests/duramen/server/test_disk_calls.py",
)
"""From the root of the repository; the dearest first."""


def dear_first(files: Sequence[str]) -> list[int]:
    """In which order to run tests of these files: their numbers, those of dear files first, else as they were."""
    places = {name: place for place, name in enumerate(DEAR)}
    return sorted(range(len(files)), key=lambda number: places.get(files[number], len(places)))
