"""One client connection of the RESP endpoint: commands in, replies out, in order.

`fast_path.py` answers GET, MGET and SET without options; `slow_path.py` runs what has to wait or reads before it
writes. `resp_session.py` is what a connection carries from one command to the next.

Reading order: `turns.py` (how long a turn is; whose it is: `router/endpoints/turns`), `connection_context.py` (what the
parts see of the whole), `resp_session.py`, `socket_input.py`, `admission.py` (what its caller may do),
`guarded_session.py`, `runs.py`, `slow_path.py`, `read_runs.py`, `command_runs.py`, `pipeline.py`, `fast_path.py`,
`lingering_close.py`, `client.py`.
"""
