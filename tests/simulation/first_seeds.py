"""With which seed the search for a planted bug begins: one that shows it, and costs little.

`first_seeds.json` has the seeds, by world and bug; a bug that is not there begins at 0. They only save time: the seeds
behind follow, for a change of the product or of the simulation moves what a seed comes to. `python -m tests.simulation
--world WORLD --search 30` writes better ones there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path
from typing import Final

from duramen.testing.machine.fault import LOST_END
from duramen.testing.machine.node_disk.node_fault import FILL_INDEX
from simulation.cluster_trims import compacts
from simulation.cluster_versions import has_versions
from simulation.history_ledger import has_history
from simulation.plan import Plan, plan_of
from simulation.planted import plant
from simulation.planted_audit import PLANTED_IN_AUDIT, PLANTED_IN_RESP_AUDIT
from simulation.planted_damage import PLANTED_IN_DAMAGE, ZEROS_ARE_THE_END
from simulation.planted_history import PLANTED_IN_HISTORY
from simulation.planted_indexes import PLANTED_IN_BUILDS, PLANTED_IN_INDEXES
from simulation.planted_json_rows import JSON_IN_DATABASE, JSON_IN_RESP
from simulation.planted_passwords import PLANTED_IN_PASSWORDS
from simulation.planted_past import PAST_IN_DATABASE, PLANTED_IN_PAST
from simulation.planted_patches import PLANTED_IN_PATCHES
from simulation.planted_places import PLANTED_IN_PLACES, PLANTED_IN_RESP_PLACES
from simulation.planted_quotas import PLANTED_IN_QUOTAS
from simulation.planted_rows import PLANTED_IN_ROWS, ROWS_IN_DATABASE, SCHEMA_BUGS
from simulation.planted_table_quotas import PLANTED_IN_RESP_TABLE_QUOTAS, PLANTED_IN_TABLE_QUOTAS
from simulation.planted_turns import PLANTED_IN_TURNS
from simulation.planted_unique import PLANTED_IN_UNIQUE
from simulation.row_indexes import has_changing_indexes
from simulation.row_ledger import has_rows
from simulation.row_schemas import has_changing_schemas
from simulation.run import Outcome, run_seed
from simulation.worlds import BUGS, WorldName

__all__ = ["FIRST_SEEDS", "SHOWN_WHERE", "find_planted", "first_seed", "may_show", "write_first_seeds"]

_FILE: Final = Path(__file__).with_name("first_seeds.json")

FIRST_SEEDS: Final[dict[WorldName, dict[str, int]]] = json.loads(_FILE.read_text())

_RESP_USERS: Final = "users of endpoints"


def _has_fault_of(*kinds: str, call: str = "") -> Callable[[Plan], bool]:
    return lambda plan: any(each.kind in kinds and call in ("", each.call) for each in plan.node_faults)


SHOWN_WHERE: Final[Mapping[WorldName, Mapping[str, Callable[[Plan], bool]]]] = {
    "log": {
        **dict.fromkeys(PLANTED_IN_DAMAGE, lambda plan: bool(plan.damages)),
        ZEROS_ARE_THE_END: lambda plan: any(each.kind == LOST_END for each in plan.damages),
    },
    "database": dict.fromkeys((*JSON_IN_DATABASE, *ROWS_IN_DATABASE, *PAST_IN_DATABASE), has_rows),
    "resp": dict.fromkeys(JSON_IN_RESP, has_rows),
    "cluster": {
        "a half-made empty version is taken for whole": lambda plan: (
            has_versions(plan) and any(fault.call == FILL_INDEX for fault in plan.node_faults)
        ),
        "a late copy of a batch that is not its producer's last one counts": lambda plan: plan.copies_s > 0,
        "a late read is asked again without what it must show": lambda plan: plan.is_uneven,
        "a token that was good once stays good": lambda plan: plan.has_users(),
        "a stream outlives its token where a clock was set back": lambda plan: plan.has_users(),
        "a call has the rights of when its caller proved itself": lambda plan: plan.has_users(),
        "an open watch outlives the revocation of its grant": lambda plan: plan.has_users(),
        "compiled rights are kept when grants change": lambda plan: plan.has_users(),
        "rights are compiled anew only when a user's own grants change": lambda plan: plan.has_users(),
        "rights are not compiled anew when a role changes": lambda plan: plan.has_users(),
        **dict.fromkeys(PLANTED_IN_AUDIT, lambda plan: plan.has_audit()),
        **dict.fromkeys(PLANTED_IN_HISTORY, has_history),
        **dict.fromkeys(PLANTED_IN_ROWS, has_rows),
        **dict.fromkeys(PLANTED_IN_PATCHES, has_rows),
        **dict.fromkeys(PLANTED_IN_UNIQUE, has_rows),
        "a patch counts twice where its batch is repeated": lambda plan: has_rows(plan) and plan.copies_s > 0,
        **dict.fromkeys(SCHEMA_BUGS, has_changing_schemas),
        **dict.fromkeys(PLANTED_IN_INDEXES, has_rows),
        **dict.fromkeys(PLANTED_IN_PAST, has_rows),
        **dict.fromkeys(PLANTED_IN_BUILDS, has_changing_indexes),
        **dict.fromkeys(PLANTED_IN_PASSWORDS, lambda plan: plan.has_passwords()),
        **dict.fromkeys(PLANTED_IN_PLACES, lambda plan: plan.has_places()),
        **dict.fromkeys(PLANTED_IN_TABLE_QUOTAS, lambda plan: plan.has_table_quotas()),
        **dict.fromkeys(PLANTED_IN_QUOTAS, lambda plan: plan.has_quotas()),
        "a build is put on top of what the table holds": has_versions,
        "a standby applies what the live version rejected": has_versions,
        "a standby takes the live version's count for its own": has_versions,
        "an empty version begins behind the place that its clearing names": has_versions,
        "a snapshot of before a swap and its rollback covers the log": lambda plan: plan.trims is not None,
        "a trim goes past the verified snapshot": lambda plan: plan.trims is not None,
        "a watch numbers what a compaction has left without holes": compacts,
        "a rename that the disk of a node refused counts as done": _has_fault_of("failed", "refused", call="rename"),
        "a replica whose disk was full does not go on when there is room": _has_fault_of("no room", "full"),
        "an index of another history than its log is believed": lambda plan: plan.copied_s is not None,
    },
    "cluster-resp": {
        **dict.fromkeys(PLANTED_IN_RESP_PLACES, lambda plan: plan.has_places(_RESP_USERS)),
        **dict.fromkeys(PLANTED_IN_RESP_AUDIT, lambda plan: plan.has_audit(_RESP_USERS)),
        **dict.fromkeys(PLANTED_IN_RESP_TABLE_QUOTAS, lambda plan: plan.has_table_quotas(_RESP_USERS)),
        **dict.fromkeys(PLANTED_IN_TURNS, lambda plan: plan.has_users(_RESP_USERS)),
        "each try of a transaction takes bytes by its MULTI": lambda plan: plan.has_quotas(_RESP_USERS),
        "notifications go on behind what retention took": lambda plan: plan.trims is not None,
    },
}
"""What a run must have for a bug to show; else any run may show it."""


def may_show(world: WorldName, bug: str) -> Callable[[int], bool]:
    """May the run of a seed show this bug, by its plan?"""
    wanted = SHOWN_WHERE.get(world, {}).get(bug)
    return lambda seed: wanted is None or wanted(plan_of(seed))


def first_seed(world: WorldName, bug: str) -> int:
    """Where to begin."""
    return FIRST_SEEDS[world].get(bug, 0)


def find_planted(world: WorldName, bug: str, within: int) -> Outcome | None:
    """Plant a bug, and run so many seeds that may show it; the first that does."""
    seeds: Iterator[int] = filter(may_show(world, bug), count(first_seed(world, bug)))
    with plant(BUGS[world][bug]):
        return next((found for seed in islice(seeds, within) if (found := run_seed(seed, world)).broken), None)


def write_first_seeds(world: WorldName, better: Mapping[str, int], *, file: Path = _FILE) -> None:
    """Keep better seeds of a world. A bug that shows at 0 has no line, nor has one that is not planted any more. What
    another search has written there meanwhile stays.
    """
    kept: dict[WorldName, dict[str, int]] = json.loads(file.read_text())
    known = {bug: seed for bug, seed in {**kept[world], **better}.items() if seed and bug in BUGS[world]}
    FIRST_SEEDS[world] = kept[world] = dict(sorted(known.items()))
    file.write_text(json.dumps(kept, indent=2) + "\n")
