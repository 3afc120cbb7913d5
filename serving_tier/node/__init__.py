"""A serving node: the replicas of one process, kept in step with the catalog's map.

`node.py` holds open replicas by table and partition. `hosting.py` compares them with the map and opens, fetches or lets
go (`bootstrap.py`, `bring_up.py`, `rebuilding.py`); `staging.py` does the same for versions that are being put into
service. A node holds nothing that could be lost.

Hosting and the job worker are called with each newer map by the node's one `log_tier.catalog.map_follower`.

Reading order: `node_load.py`, `log_ends.py`, `idle_expiry.py`, `deliveries.py`, `node.py`, `staging.py`,
`bootstrap.py`, `replica_files.py`, `absence.py`, `restart_pauses.py`, `bug_lines.py`, `bring_up.py`, `rebuilding.py`,
`hosting.py`; `verification.py` looks at the indexes of a node that does not run.
"""
