"""The data plane of one process: what a read, a write, a scan and a watch mean, in words that belong to no protocol.

`requests.py` has the values, `seam.py` the protocols: `DataPlane` (records), `TableAdmin` (tables), `CallerReads`.
`local_data.py` implements both over a log and the replicas of this process, `router/routing` over many nodes,
`router/remote` over a wire. Endpoints and clients work with whichever of them they were given, and take the narrower
protocol where it is enough.

What holds:

- A write is answered when it is on stable storage, with its offset; a conditional write also with its verdict.
- A read names the offset that its answer must contain. It waits, and past its deadline says both offsets.
- Parts of a request fail by themselves. No layer decodes a batch on the way in, but those for tables with a definition.

Reading order: `requests.py`, `freshness.py` (may this index answer?), `seam.py`, `past/`, `reply_budget.py`,
`outcomes.py`, `misfits.py`, `merge.py`, `scan.py`, `watch.py`, `in_time.py`, `catalog_tables.py`, `fresh_replicas.py`,
`machine_tables.py`, `local_data.py`, `direct_reads.py` (embedded reads in the caller's thread), `gather/` (calls of
concurrent callers leave together; the client and the endpoints share it).
"""
