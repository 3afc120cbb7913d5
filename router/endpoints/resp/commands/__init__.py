"""The commands of the RESP endpoint: what each means, as Redis defines it.

Commands on data are functions of a view, so they run alike by themselves and inside MULTI. Commands about a connection
or the server get the connection, as `router/endpoints/resp/context.py` describes it. Each module declares its commands
with arity, flags and keys (`SPECS`); `command_table.py` collects them.

Reading order: `users/` (which user may run which, and what ACL shows),
`strings.py`, `counters.py`, `keys.py`, `scans.py`, `transactions.py`, `subscriptions.py`,
`connection.py`, `server.py`, `slowlog.py`, `cluster.py`, `flushdb.py`, `duramen.py` (tokens, levels, writes under a
version),
`native.py` (for Duramen's own client), `command_table.py`, `columns.py` (the commands of a pipeline, many at once).
"""
