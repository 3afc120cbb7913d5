"""Databases of one process for tests, with the log's disk in memory: it can be full, fail, and lose its power.

| the program under test | real time | virtual time |
|---|---|---|
| embeds Duramen, blocking calls (`duramen.open`) | `Embedded` | |
| embeds Duramen, asyncio (`duramen.aio.open`) | | `AsyncEmbedded` |
| connects to a server, Redis clients included | `Server` | (`Cluster`, by `duramen.aio` alone) |

Log, index and client are the real code. The log's files are in memory; LMDB's are real, in a folder that is removed at
the end (in memory where the system has such a folder).

Invariants:

- E1 What was acknowledged survives every fault and restart that this package makes.
- E2 A restart opens what the disk kept, as the next process of a real machine would: after a loss of power the indexes
     are built anew from the log, as no machine trusts them then.
- E3 Leaving the block ends threads, sockets and files, also where the test or the disk has failed.

Reading order: `database_machine.py`, `embedded.py`, `async_embedded.py`, `server.py`.
"""
