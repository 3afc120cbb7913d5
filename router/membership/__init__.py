"""The membership: what this process knows of the serving nodes, and its way to each of them.

The map says which nodes there should be; whether they are there, how far their replicas have come and how busy they
are, they say themselves, over one **status stream** each. What is known of a node is a value (`NodeView`), renewed by
every message, so that a choice among replicas sees one consistent view and waits for nothing.

A node counts as **lost** as soon as its stream breaks, or when it has been silent for three of its heartbeats: a
process that is stopped (SIGSTOP), or a machine that is gone, closes no connection. Three things follow at once:

- requests go to it only where no other node is left;
- calls that are under way to it end with `Disconnected`, so that they go to another node now and not at their deadline;
- its status stream is opened again, with growing pauses; the first message makes it a node like any other.

A process that was itself held up for a while (a stopped debugger, a busy machine) hears nobody in that time; the
watch over silence notices its own delay, and does not count it against the nodes.

What is not here: which replica answers a request (`router.routing`), and what should be done about a lost node (an
operator, or `router.admin`).

Reading order: `views.py` (the values), `status_views.py` (from messages to values), `member.py` (one node),
`live_membership.py`, `membership_on_demand.py` (the one of a process), `local_membership.py` (of a process that is the
whole cluster).
"""
