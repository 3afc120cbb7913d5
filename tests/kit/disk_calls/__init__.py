"""Disk calls that fail in real processes: one call of the C library below a folder fails once, in whatever code makes
it: Python's, LMDB's.

A test starts a process with the environment of `call_faults.py`. Python runs `sitecustomize.py` at the start of that
process, because this folder is on its PYTHONPATH. There `failing_calls.py` puts itself between the interpreter, LMDB
and the C library (`imported_functions.py`), writes down every call that changes or opens something below the folder,
and lets the chosen one fail. No compiler, no tracer and no privilege is needed; the processes are otherwise those that
users start.
"""
