"""Reader processes: the RESP endpoint on more than one processor.

A Python process runs on one processor at a time, and a GET is all processor. With `--resp-readers N` the endpoint's
port is listened on by N processes more, between which the kernel spreads the connections (`SO_REUSEPORT`). Each of them
reads the server's indexes by itself: LMDB's readers need no lock, whichever process they are in. Everything else
(writes, transactions, what has to wait) goes to the server, as it came.

    client ──▶ reader process ──▶ index files            GET, MGET and the other reads, where they are fresh enough
                     │  ▲            ▲
                     │  └ pages ─────┼──── shared memory: what was acknowledged, and which index is the one to read
                     ▼               │
               upstream connection ──▶ server                 all else, on a Unix socket of its own

What holds:

- Q1 There is one session for a connection: that of its **upstream connection** at the server. A reader keeps no state
     of it but what the server's fences carry (`router/endpoints/resp/wire/fence.py`), and answers a read by itself only
     while nothing that it has sent to the upstream connection is unanswered. So the order of replies and effects is
     that of the commands (F2).
- Q2 A read that comes to any reader sees every write that was acknowledged before by any connection of the endpoint
     (F3). Before the server acknowledges a write it notes its offset in the table's **freshness page**, in shared
     memory, under the key's hash slot; a reader answers only from a transaction of the index that contains the offset
     of the slot. Keys that share a slot make a reader ask the server in vain, and nothing worse.
- Q3 A reader never answers from an index that another one has replaced (a version that went live, a rebuild, a table
     that was dropped or moved away): the page's **generation** rises before the server shows anything of the new one,
     and the reader looks at it after it has read.
- Q4 A reader that dies takes its connections with it and nothing else. The server holds the listening sockets, so
     connections that wait to be accepted are accepted by its successor; readers end with their server.
- Q5 The server keeps no values in memory for its endpoint while it has readers: after the commit of a batch and before
     the cache hears of it, a reader may have shown what the cache does not know.

- Q6 A reader answers for a connection while its caller may read the whole selected table, by the users and grants that
     the server knows. The fence says so, with a number that the server raises in shared memory at every change
     (`router/endpoints/resp/data/trust_cell.py`). All else the server judges: passwords, prefixes of keys, tokens that
     expire.
- Q7 Neither the server nor a reader opens the files of a whole table at once, which would take a second with 1,024
     partitions. The server publishes where its indexes lie, those at rest included; a reader opens one when it reads a
     key of it, and a few in a turn. What it has not opened it leaves to the server.

Reading order: `lazy_replicas.py` (the indexes that a reader opens), `reader_table.py` (a table as a reader sees it),
`local_answers.py` (what it answers by itself), `slow_reads.py` (what of that took long, for the server's slow log),
`reader_state.py` (what connections share), `proxy.py` (a connection), `upstream.py` (its other half, at the server),
`reader_process.py`. The fences between the two processes are in `router/endpoints/resp/wire/fence.py`, the shared
memory in `router/endpoints/resp/data/freshness_page.py`.
"""
