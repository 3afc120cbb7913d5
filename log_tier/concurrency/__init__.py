"""Waiting and threads: the few primitives that more than one tier needs.

`blocking_wait.py` waits in a thread for a result of another thread or of an event loop, so that Ctrl-C ends the wait.
`threads.py` runs blocking work in a thread that can be asked to stop between two of its steps.

Reading order: `blocking_wait.py`, `threads.py`, `background.py`, `forking.py`, `background_loop.py`, `descriptors.py`.
"""
