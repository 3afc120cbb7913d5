"""The commands of the RESP endpoint: what each means, as Redis defines it.

Commands on data are functions of a view, so they run alike by themselves and inside MULTI. Commands about a connection
or the server get the connection. `command_table.py` lists them all with arity, flags and keys.

Reading order: `strings.py`, `counters.py`, `keys.py`, `scans.py`, `transactions.py`, `notifications.py`,
`connection.py`, `server.py`, `cluster.py`, `flushdb.py`, `duramen.py` (tokens, levels, writes under a version),
`native.py` (for Duramen's own client), `descriptions.py` (what COMMAND says), `command_table.py`, `subscriptions.py`.
"""
