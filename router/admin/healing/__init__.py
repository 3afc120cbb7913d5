"""Healing: what a router does by itself about a node that stays lost.

What holds:

- H1 One decision, one job. Every router decides by itself and names the healing after which it decided; the catalog's
     fold takes the first of them and refuses the others.
- H2 No step takes a live copy that the table wants: replicas are moved, and a lost copy is given up when the new one is
     level.
- H3 A router that sees fewer than half of the nodes moves nothing: it may be what is cut off.
- H4 Time is what this process has seen on a clock that only rises. A wall clock that is wrong heals nothing early or
     late, and neither does a pause of the router.
- H5 No more replicas at once, and no more bytes a second on average, than the settings say.
- H6 A healing that is not needed any more is undone: its node is back with what it had.

How a loss passes:

    status streams ─▶ `Absences`: lost since ─▶ `decide_healing` (pure) ─▶ StartJob ─▶ the fold takes one of them
                                                     ▲        │                           │
                                                     │        └─▶ AbortJob (back, failed) ▼
                                                     └──────────── the map ◀── nodes copy, and report

What is not here: slow, full or hot nodes (`router.admin.relief`).

Reading order: `absences.py` (pure), `router.admin.planners.heal` (pure), `pace.py` (pure),
`own_jobs.py`, `healer.py`, `description.py`.
"""
