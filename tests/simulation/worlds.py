"""What a plan can be run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from duramen.testing.machine.simulated_loop import SimulatedLoop
from duramen.testing.machine.story import RunStory
from simulation.api_traffic import api_traffic
from simulation.asked_snapshots import PLANTED_IN_ASKED_SNAPSHOTS
from simulation.cluster_history import keep_history
from simulation.cluster_incidents import disk_operator
from simulation.cluster_resp import cluster_resp_traffic
from simulation.cluster_tallies import PLANTED_IN_TALLIES
from simulation.cluster_traffic import cluster_traffic
from simulation.cluster_world import ClusterWorld
from simulation.database_world import DatabaseWorld
from simulation.log_world import LogWorld
from simulation.plan import Plan
from simulation.planted import PLANTED, Patches
from simulation.planted_audit import PLANTED_IN_AUDIT, PLANTED_IN_RESP_AUDIT
from simulation.planted_clocks import CLOCKS_IN_DATABASE, CLOCKS_IN_LOG
from simulation.planted_cluster import PLANTED_IN_CLUSTER
from simulation.planted_cluster_resp import PLANTED_IN_CLUSTER_RESP
from simulation.planted_damage import PLANTED_IN_DAMAGE
from simulation.planted_data_sets import PLANTED_IN_DATA_SETS
from simulation.planted_database import PLANTED_IN_DATABASE
from simulation.planted_history import PLANTED_IN_HISTORY
from simulation.planted_index import PLANTED_IN_INDEX
from simulation.planted_indexes import PLANTED_IN_BUILDS, PLANTED_IN_INDEXES
from simulation.planted_json_rows import JSON_IN_DATABASE, JSON_IN_RESP
from simulation.planted_node_disk import PLANTED_IN_NODE_DISK
from simulation.planted_passwords import PLANTED_IN_PASSWORDS
from simulation.planted_past import PAST_IN_DATABASE, PLANTED_IN_PAST
from simulation.planted_patches import PLANTED_IN_PATCHES
from simulation.planted_places import PLANTED_IN_PLACES, PLANTED_IN_RESP_PLACES
from simulation.planted_quotas import PLANTED_IN_QUOTAS, PLANTED_IN_RESP_QUOTAS
from simulation.planted_resp import PLANTED_IN_RESP
from simulation.planted_resp_users import PLANTED_IN_RESP_USERS
from simulation.planted_rows import PLANTED_IN_ROWS, ROWS_IN_DATABASE
from simulation.planted_syncs import PLANTED_SYNCS
from simulation.planted_table_quotas import PLANTED_IN_RESP_TABLE_QUOTAS, PLANTED_IN_TABLE_QUOTAS
from simulation.planted_trims import PLANTED_IN_TRIMS
from simulation.planted_turns import PLANTED_IN_TURNS
from simulation.planted_unique import PLANTED_IN_UNIQUE
from simulation.planted_users import PLANTED_IN_USERS
from simulation.planted_versions import PLANTED_IN_VERSIONS
from simulation.planted_views import VIEWS_IN_DATABASE, VIEWS_IN_LOG, VIEWS_IN_RESP
from simulation.resp_traffic import resp_traffic

__all__ = ["BUGS", "WORLDS", "World", "WorldName"]

WorldName = str


class World(Protocol):
    """One run of a plan."""

    story: RunStory

    async def run(self) -> None:
        """Raises `Broken`."""
        ...


def _database(plan: Plan, loop: SimulatedLoop) -> World:
    return DatabaseWorld(plan, loop, api_traffic)


def _resp(plan: Plan, loop: SimulatedLoop) -> World:
    return DatabaseWorld(plan, loop, resp_traffic, endpoints=1 + plan.seed % 2)


def _cluster(plan: Plan, loop: SimulatedLoop) -> World:
    world = ClusterWorld(plan, loop, cluster_traffic, disk_operator)
    world.life_opened = keep_history
    return world


def _cluster_resp(plan: Plan, loop: SimulatedLoop) -> World:
    plan = replace(plan, copied_s=None)  # its clients cannot tell what went with the end of the log
    return ClusterWorld(plan, loop, cluster_resp_traffic, disk_operator, has_endpoints=True)


WORLDS: Final[dict[WorldName, Callable[[Plan, SimulatedLoop], World]]] = {
    "log": LogWorld,
    "database": _database,
    "resp": _resp,
    "cluster": _cluster,
    "cluster-resp": _cluster_resp,
}
"""The log alone; a database with clients of the Python API; one with clients of the Redis protocol; a cluster with
clients of the Python API; one with clients of the Redis protocol."""

BUGS: Final[dict[WorldName, dict[str, Callable[[], Patches]]]] = {
    "log": PLANTED | PLANTED_IN_DAMAGE | PLANTED_SYNCS | VIEWS_IN_LOG | CLOCKS_IN_LOG,
    "database": PLANTED_IN_DATABASE
    | VIEWS_IN_DATABASE
    | CLOCKS_IN_DATABASE
    | JSON_IN_DATABASE
    | ROWS_IN_DATABASE
    | PAST_IN_DATABASE,
    "resp": PLANTED_IN_RESP | VIEWS_IN_RESP | JSON_IN_RESP,
    "cluster": PLANTED_IN_CLUSTER
    | PLANTED_IN_VERSIONS
    | PLANTED_IN_TRIMS
    | PLANTED_IN_DATA_SETS
    | PLANTED_IN_INDEX
    | PLANTED_IN_NODE_DISK
    | PLANTED_IN_USERS
    | PLANTED_IN_PASSWORDS
    | PLANTED_IN_QUOTAS
    | PLANTED_IN_TABLE_QUOTAS
    | PLANTED_IN_PLACES
    | PLANTED_IN_AUDIT
    | PLANTED_IN_HISTORY
    | PLANTED_IN_ROWS
    | PLANTED_IN_PATCHES
    | PLANTED_IN_UNIQUE
    | PLANTED_IN_INDEXES
    | PLANTED_IN_BUILDS
    | PLANTED_IN_PAST
    | PLANTED_IN_ASKED_SNAPSHOTS
    | PLANTED_IN_TALLIES,
    "cluster-resp": PLANTED_IN_CLUSTER_RESP
    | PLANTED_IN_RESP_USERS
    | PLANTED_IN_RESP_QUOTAS
    | PLANTED_IN_RESP_TABLE_QUOTAS
    | PLANTED_IN_RESP_PLACES
    | PLANTED_IN_RESP_AUDIT
    | PLANTED_IN_TURNS,
}
"""Where each planted bug is found."""
