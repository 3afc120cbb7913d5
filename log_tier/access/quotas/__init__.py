"""Quotas in force at one server: calls, bytes, streams and connections of users and tables, at all of its endpoints.

- U1 What is over is refused with `Overloaded`, and takes nothing.
- U2 A server of the cluster has no quota: the first server that a user reached has counted the call.
- U3 A change is in force with the next call. What is open stays open: a bound that falls refuses what comes, and ends
     nothing.

Reading order: `token_bucket.py`, `open_connections.py`, `quota_keeper.py`.
"""
