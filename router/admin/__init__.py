"""Administration: what an operator asks about the cluster, and what they have it do.

Everything here sees the same two things: the catalog's map (what should be) and what the nodes say of themselves (what
is). Questions put the two side by side; changes become a **plan**, which is shown before it begins, and then a job in
the catalog, which the nodes work on (`serving_tier.jobs`).

What holds:

- A1 A plan is a pure function of one map and one view of the nodes. Showing it changes nothing (`dry_run`). A plan has
  an id, made of what it would do: a change that names the id of the plan that was shown begins exactly that plan, or is
  refused because the plan would be another now. One that names the catalog's version as well begins only if no job
     began since: of two that begin one plan at once, one does.
- A2 A plan is tried on the map that it was made from before it is shown: a dry run refuses what a real one would.
- A3 Work goes to nodes that are there: a lost node is never a plan's target or worker. What needs it waits for it, and
     the plan says so.
- A4 No plan takes away the last replica that can be read, or prefers a lost copy to a live one.
- A5 The log is trimmed and compacted only below a verified snapshot (I11); without one the plan is refused.
- A6 Nothing is moved that need not be: a rebalance moves exactly the surplus.

How a change passes:

    request ─▶ planner (pure) ─▶ Plan: a command + what it will cost ─▶ try it on the map ─▶ dry run? show it : submit
                                                                                                   │
    progress ◀── the map's tasks and the nodes' own figures ◀── nodes work, report to the catalog ◀┘

**A verb is declared once**, in `verbs.py`: request fields, help, planner, what it destroys. The command line, the
conversion to and from messages and docs/CLI.md follow from that. CONTRIBUTING lists what a new one touches.

**One service, everywhere.** Routers, nodes and the single server serve `duramen.v1.Admin` alike: none of them is
special, as none of them keeps anything that the catalog does not. Requests and answers are the messages of
`router/proto/admin.proto`. The core makes the messages, the service sends them, the command line reads their fields;
with `--json` it prints all of them under their own names (`answers/document.py`). Users, roles and grants have a
service of their own, `duramen.v1.Users` (`users/`).

**A lost node is healed** by routers, once it is lost for long (`healing/`), and one that is full, slow or hot for long
is relieved (`relief/`): all that is decided here without an operator.

What is deliberately not here: work (nodes do that), and waiting for a lost node. Nothing starts to move because a node
was lost for a minute.

Reading order: `verb.py`, `verbs.py`, `planners/` (pure), `find_planner.py`, `answers/`, `audits/`,
`restore_offsets.py`, `situations.py`,
`admin.py`, `clear.py`, `set_retention.py`, `healing/`, `relief/`, `users/`, `lazy.py`, `messages.py`, `service.py`,
`access_rules.py`, `client.py`.
"""
