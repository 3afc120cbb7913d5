"""Plans: what an administrative command will do, what it will cost, and the catalog command itself. Pure.

A planner sees one `Situation` (a map and what the nodes reported at one time) and returns a `Plan`, so the same plan
is shown by `--dry-run` and carried out without it. A plan that lost a race is rejected by the catalog's fold.

Reading order: `cluster_view.py`, `plan.py`, `shown_plan.py`, `choices.py`, `move.py`, `strains.py`, `relieve.py`,
`rebalance.py`, `set_replicas.py`, `restore.py`, `heal.py`, `automate.py`, `resume.py`, `upkeep.py`,
`versions.py`.
"""
