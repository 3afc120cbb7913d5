"""Waiting and threads: the few primitives that more than one tier needs.

`handed_call.py` is a call that an event loop runs for a waiting thread, whose wait Ctrl-C ends at any instruction.
`workers.py` is the seam to the threads that a component owns. `threads.py` runs blocking work in a thread, which a
caller can stop between two of its steps. `background_loop.py` is the process's one event loop for callers that block.
`forking.py` says what a forked child must not touch. `descriptors.py` shares out the process's open files;
`disk_errors.py` turns what a disk refuses into typed errors.
`backoff.py` is the one retry policy, `broadcast.py` wakes all waiters for a change, `clocks.py` is the seam to the
machine's clocks. `background.py` and `tasks.py` keep tasks, report their failures and end them. `persistent_map.py` is
a mapping that is replaced at each change, cheaply, so that readers need no lock. `sized_work.py` keeps the turns of an
event loop short. `on_demand.py` opens what few callers need when the first one does.

Reading order: `clocks.py`, `backoff.py`, `broadcast.py`, `background.py`, `tasks.py`, `workers.py`, `threads.py`,
`forking.py`, `handed_call.py`, `background_loop.py`, `descriptors.py`, `disk_errors.py`, `persistent_map.py`,
`sized_work.py`, `on_demand.py`.
"""
