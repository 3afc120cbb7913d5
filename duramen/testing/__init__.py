"""What tests of programs that use Duramen need, and Duramen's own tests: a machine whose failures are chosen.

    from duramen import testing

    @testing.simulated(seeds=20)
    async def test_orders_survive_the_death_of_a_node() -> None:
        async with testing.Cluster(nodes=3) as cluster:
            database = await cluster.connect()
            ...
            cluster.faults.kill("n2")

`simulated` and `run` run a test in virtual time: nobody waits for timeouts and backoff, and a seed is one run.
`Cluster` is a whole cluster in it. `await cluster.check()` holds every reply that anybody got against the log.
`AsyncEmbedded` is a database inside the program. `Embedded` and `Server` are for programs that block, in real time.

Errors of the kit (`duramen/testing/running/errors.py`) are no `DuramenError`s, so that a program under test does not
retry them.

Packages, from below: `machine/` (a simulated machine), `running/` (virtual time), `recording/` (who asked
what, and whether the answers were right), `cluster/`, and `embedded/` (databases of one process, and a server).
"""

from duramen.testing.cluster.cluster import Cluster
from duramen.testing.cluster.faults import ClusterFaults
from duramen.testing.cluster.program import Program
from duramen.testing.embedded.async_embedded import AsyncEmbedded
from duramen.testing.embedded.embedded import Embedded
from duramen.testing.embedded.server import Server
from duramen.testing.machine.disk_faults import DiskFaults
from duramen.testing.machine.simulated_loop import Stuck
from duramen.testing.recording.judging import Judged
from duramen.testing.running.errors import (
    ClusterEnded,
    Killed,
    NotJudged,
    NotLevel,
    NotSimulated,
    PromiseBroken,
    TooLong,
    UnknownProcess,
)
from duramen.testing.running.run import run
from duramen.testing.running.simulated import simulated

__all__ = [
    "AsyncEmbedded",
    "Cluster",
    "ClusterEnded",
    "ClusterFaults",
    "DiskFaults",
    "Embedded",
    "Judged",
    "Killed",
    "NotJudged",
    "NotLevel",
    "NotSimulated",
    "Program",
    "PromiseBroken",
    "Server",
    "Stuck",
    "TooLong",
    "UnknownProcess",
    "run",
    "simulated",
]
