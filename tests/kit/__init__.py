"""The test kit: real parts set up for tests, disks and logs that fail on purpose, models to compare with.

A module here is imported by its full name (`from kit.log.held_log import HeldLog`), so a name needs to be unique in its
subpackage only. What simulates a machine (loop, disk, network, processes) is in the product: `duramen.testing.machine`.

Tests wait with `until` and `wait_until` of `deadlines.py`, whose deadlines grow with the load of the machine. A server
that stops and comes back at its port, or a port at which nobody shall answer, takes one of `held_port.py`. A server for
clients that block runs in a `ServedThread` of `served_thread.py`. `golden.py` plays and records golden scripts.
`marked_files.py` says which files a run for one mark collects. `avro_rows.py` makes
schemas of rows, and rows. `lock_file.py` reads lock files. `plain_install.py` makes an environment without any extra.

    log/      logs that hold back, the contract of `Log`, models of the log
    index/    the contract of `Index`, a naive model, golden scripts of the fold
    cluster/  nodes and routers in one process or in several
    client/   the four ways to reach a database, a proxy that cuts connections, server processes
    resp/     a RESP server in a thread, a raw client, a real Redis to compare with
    image/    what the Dockerfile makes, and containers of it, without an engine
    pages/    the documentation's code blocks, and a terminal that runs them
    kafka/    real brokers, foreign records
    spark/    one Spark session for a run
    storage/  folders in memory, an S3 server, documents of other versions, files that are damaged
    disk_calls/  disk calls that fail in the processes that tests start
    late/     late replicas, reports and maps: `pytest --slow-replicas 0.5`, `--slow-reports 0.3`
"""
