"""Clusters in the simulation: every property holds, the same story from the same seed, each planted bug is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from duramen.testing.machine.node_disk.node_fault import FILL_INDEX
from simulation.cluster_trims import compacts
from simulation.cluster_versions import has_versions
from simulation.elsewhere import digests_elsewhere
from simulation.history_ledger import has_history
from simulation.job_steps import ACTIONS, KINDS, never_met, steps_met
from simulation.plan import Plan, plan_of
from simulation.planted import plant
from simulation.planted_audit import PLANTED_IN_AUDIT
from simulation.planted_history import PLANTED_IN_HISTORY
from simulation.planted_passwords import PLANTED_IN_PASSWORDS
from simulation.planted_patches import PLANTED_IN_PATCHES
from simulation.planted_places import PLANTED_IN_PLACES
from simulation.planted_quotas import PLANTED_IN_QUOTAS
from simulation.planted_rows import PLANTED_IN_ROWS
from simulation.planted_table_quotas import PLANTED_IN_TABLE_QUOTAS
from simulation.row_ledger import has_rows
from simulation.run import run_seed
from simulation.worlds import BUGS

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
GROUPS = 8
SEEDS = 100 if FULL else 6
"""In each group; a run takes about a second of a processor."""
FOUND_WITHIN = 60
"""Runs after which each planted bug is found."""
FOUND_FROM = {
    "a call has the rights of when its caller proved itself": 20,
    "a follower that was reset skips a record": 1,
    "a half-made empty version is taken for whole": 9,
    "a header that was good once stays good": 18,
    "a late copy of a batch that is not its producer's last one counts": 32,
    "a late read is asked again without what it must show": 13,
    "a patch counts twice where its batch is repeated": 32,
    "a patch is applied to the wrong version": 4,
    "a quota that was removed stays": 8,
    "a refusal names the time of the first bound that is used up": 304,
    "a rename that the disk of a node refused counts as done": 32,
    "a repeated batch takes effect twice": 32,
    "a replica whose disk was full does not go on when there is room": 27,
    "a restore to a point in time holds a record more": 28,
    "a row of the audit that is written again is another one": 45,
    "a server keeps the hash of a user's first login": 18,
    "a session counts what was not acknowledged": 6,
    "a session forgets what it has seen at another node": 1,
    "a snapshot of before a swap and its rollback covers the log": 114,
    "a snapshot's manifest names a later offset than its data": 9,
    "a standby applies what the live version rejected": 7,
    "a stream on an audited table is not noted": 45,
    "a stream outlives its token where a clock was set back": 20,
    "a strong read does not ask the log": 6,
    "a token that was good once stays good": 20,
    "a trim goes past the verified snapshot": 3,
    "a watch takes no place of its table": 53,
    "a watch numbers what a compaction has left without holes": 32,
    "a write is done before a quota refuses it": 20,
    "a write to an audited table is noted twice": 45,
    "a write whose reply is lost is reported as refused": 6,
    "an open watch outlives the revocation of its grant": 18,
    "compiled rights are kept when grants change": 18,
    "failed logins are not counted": 18,
    "of equal refusals the audit counts one": 45,
    "rights are compiled anew only when a user's own grants change": 20,
    "rights are not compiled anew when a role changes": 20,
    "the bytes of replies are not counted": 8,
    "the reads of an audited table are not noted": 45,
    "rows of a history whose append failed are not written again": 177,
    "what a read must show is not on the wire": 1,
    "what is open outlives its password": 18,
    "who has no password is let in with any": 18,
}
"""Seeds to begin with, which save time: the others follow, for a change of the product moves what a seed comes to."""
FOUND_WHERE: dict[str, Callable[[Plan], bool]] = {
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
    **dict.fromkeys(PLANTED_IN_PASSWORDS, lambda plan: plan.has_passwords()),
    **dict.fromkeys(PLANTED_IN_PLACES, lambda plan: plan.has_places()),
    **dict.fromkeys(PLANTED_IN_TABLE_QUOTAS, lambda plan: plan.has_table_quotas()),
    **dict.fromkeys(PLANTED_IN_QUOTAS, lambda plan: plan.has_quotas()),
    "a build is put on top of what the table holds": has_versions,
    "a standby takes the live version's count for its own": has_versions,
    "an empty version begins behind the place that its clearing names": has_versions,
    "a snapshot of before a swap and its rollback covers the log": lambda plan: plan.trims is not None,
    "a trim goes past the verified snapshot": lambda plan: plan.trims is not None,
    "a watch numbers what a compaction has left without holes": compacts,
    "a rename that the disk of a node refused counts as done": lambda plan: any(
        fault.call == "rename" and fault.kind in ("failed", "refused") for fault in plan.node_faults
    ),
    "a replica whose disk was full does not go on when there is room": lambda plan: any(
        fault.kind in ("no room", "full") for fault in plan.node_faults
    ),
    "an index of another history than its log is believed": lambda plan: plan.copied_s is not None,
}
"""What a run must have for a bug to show; else any run may show it."""


def again(seed: int) -> str:
    return f"again: python -m tests.simulation --world cluster --seed {seed} --story"


@pytest.mark.campaign
@pytest.mark.parametrize("group", range(GROUPS))
def test_a_cluster_keeps_every_property(group: int, record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    digests: list[str] = []
    seeds = range(group * SEEDS, (group + 1) * SEEDS)
    for seed in seeds:
        outcome = run_seed(seed, "cluster")
        met += outcome.met
        digests.append(outcome.digest)
        assert not outcome.broken, f"{outcome.words}\n{again(seed)}"
        assert outcome.met["answer ok"], f"no call of seed {seed} was answered\n{again(seed)}"
    record_property("simulation world", "cluster")
    record_property("simulation seeds", SEEDS)
    record_property("simulation met", dict(met))
    assert any(name.startswith("incident") for name in met), met
    if group == GROUPS - 1:
        assert digests_elsewhere(seeds, "cluster", hashes=1) == digests, "a seed is one story, in any process"


def test_a_step_that_no_incident_met_is_named() -> None:
    met = {f"step of a job, {action} waiting: kill": 1 for action in ACTIONS}
    met |= {f"step of {kind}, {'swap running' if kind == 'rollback' else 'under way'}: cut": 2 for kind in KINDS}
    assert never_met(met) == []
    some = {"incident kill": 3, "step of move, move waiting: cut": 2, "step of clear, stage waiting: one way": 1}
    assert never_met(some) == [each for each in (*ACTIONS, *KINDS) if each not in ("move", "clear", "stage")]
    assert steps_met(some)["clear"] == {"one way": 1}


@pytest.mark.parametrize("name", BUGS["cluster"])
def test_a_bug_planted_in_a_cluster_is_found(name: str) -> None:
    with plant(BUGS["cluster"][name]):
        assert any(run_seed(seed, "cluster").broken for seed in islice(_seeds(name), FOUND_WITHIN))


def _seeds(name: str) -> Iterator[int]:
    may_show = FOUND_WHERE.get(name)
    return (seed for seed in count(FOUND_FROM.get(name, 0)) if may_show is None or may_show(plan_of(seed)))
