"""Whose turn it is at a server's event loop: one line for the work of all users, by whichever protocol it comes.

Connections of the Redis protocol stand in it when the time of a turn is over. A call of gRPC joins it while work of its
user waits there; it passes otherwise, since gRPC hands over one call in a turn anyway. So a user who floods both
protocols gets one share of the server's time, and not two. While one who has nothing in the line calls, the line's
turns are short: a call of gRPC goes through some twenty turns of the loop, a write by the Redis protocol through
several, and would wait for each of them.

Calls of one server of the cluster to another do not stand in it: the server that a user reached has its turns.

Work that goes to threads has turns of its own, in which the users alternate (`log_tier.access.user_turns`).

Reading order: `fair_line.py` (the share of each user), `shared_turns.py` (whose turn it is).
"""
