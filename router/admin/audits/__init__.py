"""Is what was written where it has to be: the log's counts, compared with those of each tier that has them.

An audit asks the log, the replicas and their watches for one partition's counts of each minute, and finds the offsets
at which one differs (`log_tier.tally`). It changes nothing. What a client's session was acknowledged is found in the
log by producer and sequence.

What only its caller could compare, an export or a session, may be noted: the catalog keeps it with the table, and
lists, status, metrics and the console show it.

What is not here: the comparison that each node makes by itself, every minute (`serving_tier.proof`).

Reading order: `audit_acknowledged.py`, `audit_data.py`, `note_audit.py`.
"""
