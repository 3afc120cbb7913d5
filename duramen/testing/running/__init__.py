"""Running a test in virtual time: the loop, what of the machine is refused on it, and one seed for everything drawn.

A program of asyncio runs on the loop as it is. `asyncio.sleep`, timeouts and the loop's clock are virtual: a minute of
backoff costs no time, and two runs of one seed are equal. What is not virtual is refused where it would hang or make
runs differ (sockets, threads, `time.sleep`), and real where it harms nothing (`time.time`, files).

Invariants:

- R1 Two runs of one function under one seed are the same, as long as the function itself does nothing in the order of a
     set of strings and does not ask the machine for time.
- R2 Nothing that the run replaces (`secrets`, `os.urandom`, `time.sleep`, threads' `start`, `socket.connect`) is
     replaced after it. What is refused is refused in the thread of the run alone.
- R3 A run ends: with a result, with the test's error, with `Stuck` where everybody waits for ever, or with `TooLong`.
- R4 One run at a time in a process: a second one, in another thread, is refused.

Reading order: `errors.py` (of the whole kit), `seeded.py`, `run_observer.py`, `virtual_loop.py`, `refusals.py`,
`run.py`, `simulated.py` (the decorator).
"""
