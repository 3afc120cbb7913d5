"""The running proof: a node compares what it has counted of its partitions with what the log holds, all the time.

    every minute, one partition after the other
        replica's tally, tallies of its watches ──┐
        log: the same offsets, read again ────────┼──▶ equal: proven up to here · different: these offsets
                                                  └──▶ node.proofs ──▶ status, metrics, alert, console

- P1 What was written is read once more at each node that holds it, most of it from the page cache. That takes at most
     one hundredth of the time: whatever a look has taken, the next one waits a hundred times as long.
- P2 A difference in a replica stays until the replica is built anew. One in a watch stays for an hour.
- P3 It looks back one hour by the log's time. `duramen audit data --since` looks back as far as tallies are kept.
- P4 Indexes at rest are not opened for it.

What is not here: comparing replicas of different nodes with each other (`duramen admin verify`), and who asks on behalf
of an operator (`router.admin.audits.audit_data`), which compares in the same way.

Reading order: `log_counts.py`, `running_proof.py`.
"""
