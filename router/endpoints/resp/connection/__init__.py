"""One client connection of the RESP endpoint: commands in, replies out, in order.

`fast_path.py` answers GET, MGET and SET without options; `slow_path.py` runs what has to wait or reads before it
writes. `session.py` is what a connection carries from one command to the next.

Reading order: `session.py`, `fast_path.py`, `slow_path.py`, `client.py`, `intake.py`, `runs.py`, `pipeline.py`.
"""
