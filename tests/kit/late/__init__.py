"""Replicas that apply late: `pytest --slow-replicas 0.5` finds tests that rely on a replica being quick.

A test that reads what another session, connection or process wrote needs a strong read, a token, or `until`. Without
one it passes on a quiet machine, where a replica applies within a millisecond, and fails on a busy one. When every
replica waits before it applies, such a test fails here too.

`replicas.py` has the option's fixture. `sitecustomize.py` is what Python runs at its start in the processes that tests
start, because this folder is on their PYTHONPATH.
"""
