"""The RESP endpoint: the Redis protocol, RESP2 and RESP3, over the same core as every other endpoint.

A client of Redis, in any language, connects and finds strings, counters, expiry, transactions and scans with Redis' own
meaning and replies, kept by a log: a write is acknowledged when it is on stable storage, any number of nodes serve it,
and a token carries what was seen from one connection to another. It is also the fast way in: Python's gRPC layer costs
some 300 µs for a call on each side, and this endpoint answers a GET in some 15 µs.

What holds:

- F1 There is no second implementation of anything. Reads are those of the replica and of
     `router.data.seam.Connection`, writes are batches of the log, conditions are decided by the fold. Only what
     Redis *means* is here: numbers, options, error texts, as functions of a view (`commands/strings.py`,
     `commands/counters.py`, `commands/keys.py`), which run alike by themselves and inside MULTI.
- F2 Replies of a connection leave in the order of its commands, and no command takes effect before those that came
     before it on its connection. Over several partitions that holds in each of them: a pipeline's writes to two
     partitions are two batches of two logs, as they would go to two servers of a Redis Cluster.
- F3 A write is acknowledged after it is on stable storage, and every read that comes to this server after that sees it,
     by whatever connection. At other servers the connection's token does the same. Nobody is shown what is not on
     stable storage: a command that reads what an earlier one of its pipeline has written is answered when that is.
- F4 A command that reads before it writes takes effect on what it has read, or runs again: its records carry the
     versions that it saw, and the log decides (I6). It runs again with all commands of its connection that were
     written with it, reads included, so F2 holds also then.
- F5 Everything is bounded: connections, arguments, bytes of a command, queued commands, unread replies, cursors,
     TLS handshakes, and what all connections hold together (`bounds/`). `wire/limits.py` has each with its reason. What
     cannot be a command is answered as Redis does, and the connection ends.
- F6 No turn of the event loop is long, whatever a client sends: bytes are parsed, commands run and replies sent some at
     a time, and what is left waits behind the other connections. A command on more than `AT_ONCE_KEYS_MAX` keys is
     read, run and encoded in a thread; the rounds of all partitions together work on so many keys in one turn.
- F7 Where the catalog has users, no command runs that its caller may not run at that moment: each has a rule
     (`commands/users/access_rules.py`), and what waits in a connection's queue was let in by it
     (`connection/admission.py`). While there are no users, this costs nothing.

How a command passes: bytes ─▶ `wire/framing.py` (hiredis, and a fallback parser for what is unusual) ─▶
`connection/client.py`, which takes the fast paths (`connection/fast_path.py`) for GET and SET, and for the rest looks
the command up in `commands/command_table.py`. Reads go to `data/reads.py`; plain writes of all connections gather in
`data/shared_writer.py` and leave as one batch per partition; what reads before it writes gathers in `data/rounds/`.
Replies are encoded by `wire/replies.py`, with one write for all that are ready.

Time. The log judges expiry by its own time, which does not advance without writes; views also look at this process's
clock, so a key goes at its millisecond. Expiry is stored as an absolute time, as Redis does.

What it deliberately does not do: lists, hashes and the other types (a value is a value), scripts, messages between
clients, users of its own, replication by Redis' own protocol. What is not there is refused as an unknown command.
`docs/REDIS.md` lists every command and every difference.

More processes can take the connections and read for themselves: `readers/`.

Each subpackage imports only those before it in the reading order.

Reading order: `wire/` (bytes), `bounds/` (what all connections may take), `data/` (what commands read and write),
`command_spec.py` (what a command is), `row_words.py` (commands on rows), `command_descriptions.py` (what COMMAND says
of each), `context.py` (what a command may see), `commands/`, `connection/`, `readers/`, `server/`.
"""
