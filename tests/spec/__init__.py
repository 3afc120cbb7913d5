"""The specifications of `docs/spec`: their names are those of the code, their models hold, their mistakes are found.

A model checker that finds nothing may be unable to find anything. So each property has mistakes that can be planted in
the specification (`planted.py`), and the checker must find each of them by the property that is named.

`make test-spec` and `make campaign` run what needs the checker. The names are compared with the code in `make test`.

Runs of the simulation are recorded and held against ExactlyOnce (`trace.py`) and ReadYourWrites (`read_trace.py`); a
trace in which one word is wrong must be refused.

Reading order: `definitions.py`, `checker.py`, `planted.py`, `trace.py`, `read_trace.py`.
"""
