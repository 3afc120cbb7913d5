"""Late replicas and late reports: `pytest --slow-replicas 0.5` and `--slow-reports 0.3` find tests that rely on quick
ones.

A test that reads what another session, connection or process wrote needs a strong read, a token, or `until`. Without
one it passes on a quiet machine, where a replica applies within a millisecond, and fails on a busy one. When every
replica waits before it applies, such a test fails here too. The same holds for a test that looks at once at what a node
reports of itself, or for what a process does when the map changes.

`sitecustomize.py` says what each option makes late, and is what Python runs at its start in the processes that tests
start, because this folder is on their PYTHONPATH. `lateness.py` has the options' fixture.
"""
