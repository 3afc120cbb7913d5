"""Clients of the Redis protocol at simulated clusters: every property holds, and each planted bug is found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, islice

import pytest

from simulation.plan import Plan, plan_of
from simulation.planted import plant
from simulation.planted_audit import PLANTED_IN_RESP_AUDIT
from simulation.planted_places import PLANTED_IN_RESP_PLACES
from simulation.planted_table_quotas import PLANTED_IN_RESP_TABLE_QUOTAS
from simulation.planted_turns import PLANTED_IN_TURNS
from simulation.run import run_seed
from simulation.worlds import BUGS

FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
WORLD = "cluster-resp"
GROUPS = 4
SEEDS = 100 if FULL else 5
"""In each group; a run takes about a second of a processor."""
FOUND_WITHIN = 60
"""Runs after which each planted bug is found."""
FOUND_FROM = {
    "a node answers from its replicas without a floor": 5,
    "a read at another node forgets what the connection has written": 3,
    "a command on several keys is judged by the first": 7,
    "a stretch of commands is judged by the first": 7,
    "a subscription is confirmed before its position is fixed": 13,
    "a subscription outlives the revocation of its grant": 7,
    "a transaction goes on without what a quota has refused": 12,
    "a transaction is refused in its middle": 7,
    "an open connection keeps the rights of when it came in": 7,
    "each protocol of a server counts for itself": 7,
    "each try of a transaction takes bytes by its MULTI": 884,
    "of the refused commands of a pipeline the audit has the first": 47,
    "notifications whose watch breaks go on at the log's end": 18,
    "the reply that refuses is paid for": 7,
}
"""Seeds to begin with, which save time: the others follow, for a change of the product moves what a seed comes to."""
FOUND_WHERE: dict[str, Callable[[Plan], bool]] = {
    **dict.fromkeys(PLANTED_IN_RESP_PLACES, lambda plan: plan.has_places("users of endpoints")),
    **dict.fromkeys(PLANTED_IN_RESP_AUDIT, lambda plan: plan.has_audit("users of endpoints")),
    **dict.fromkeys(PLANTED_IN_RESP_TABLE_QUOTAS, lambda plan: plan.has_table_quotas("users of endpoints")),
    **dict.fromkeys(PLANTED_IN_TURNS, lambda plan: plan.has_users("users of endpoints")),
    "each try of a transaction takes bytes by its MULTI": lambda plan: plan.has_quotas("users of endpoints"),
    "notifications go on behind what retention took": lambda plan: plan.trims is not None,
}
"""What a run must have for a bug to show; else any run may show it."""


@pytest.mark.campaign
@pytest.mark.parametrize("group", range(GROUPS))
def test_endpoints_of_a_cluster_keep_every_property(group: int, record_property: Callable[[str, object], None]) -> None:
    met: Counter[str] = Counter()
    for seed in range(group * SEEDS, (group + 1) * SEEDS):
        outcome = run_seed(seed, WORLD)
        met += outcome.met
        assert not outcome.broken, (
            f"{outcome.words}\nagain: python -m tests.simulation --world {WORLD} --seed {seed} --story"
        )
    record_property("simulation world", WORLD)
    record_property("simulation seeds", SEEDS)
    record_property("simulation met", dict(met))
    assert met["answer ok"] > 0
    assert met["replica compared"] > 0
    assert any(name.startswith("incident") for name in met), met


@pytest.mark.parametrize("name", BUGS[WORLD])
def test_a_bug_planted_in_endpoints_of_a_cluster_is_found(name: str) -> None:
    with plant(BUGS[WORLD][name]):
        assert any(run_seed(seed, WORLD).broken for seed in islice(_seeds(name), FOUND_WITHIN))


def _seeds(name: str) -> Iterator[int]:
    may_show = FOUND_WHERE.get(name)
    return (seed for seed in count(FOUND_FROM.get(name, 0)) if may_show is None or may_show(plan_of(seed)))
