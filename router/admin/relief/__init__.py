"""Relief: what a router does by itself about nodes that have too much for long: full, slow or hot ones.

What holds:

- L1 One relief at a time in the whole cluster. Every router decides by itself, and the catalog's fold takes the first
     decision; it takes none while another job moves replicas, and none that an operator has switched off.
- L2 Only replicas of live nodes are moved, so a partition never has fewer copies than before.
- L3 No move makes a node full or hot, and what was moved is not moved back: a node gets something only with
     `ROOM_PERCENT` of its disk free afterwards, and gives only below `FULL_PERCENT`; a replica goes only where less is
     served with it than its node serves without it.
- L4 A node must have had too much without a break for `after_s`, as this process has seen it. After a job that moves
     replicas, whatever became of it, that time begins anew for all nodes: what it has done shows first.
- L5 Few replicas in one job, and no more bytes a second on average than the settings say, those of healings counted in.
- L6 A lost node goes first: while one is missed that may come back or be healed, no relief begins, and one that is
     under way is undone when a healing has something to do.

How it passes:

    status streams ─▶ `strains_of` ─▶ `StrainTimes` ─▶ `decide_relief` (all pure) ─▶ StartJob ─▶ the fold takes one
                                                            ▲       │                              │
                                                            │       └─▶ AbortJob (failed, stuck)   ▼
                                                            └──────── the map ◀── nodes copy, and report

What is not here: nodes that hold more replicas than others and suffer nothing. `rebalance` evens them out, when an
operator says so.

Reading order: `router.admin.planners.strains`, `router.admin.planners.relieve`, `strain_times.py`, `decision.py` (all
pure), `reliever.py`, `description.py`.
"""
