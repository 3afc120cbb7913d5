"""The audit: who did what, as rows of the system table `_duramen_audit`.

    GrpcGuard ──────┐                                            table `_duramen_audit`
    RESP endpoint ──┼─ note(event) ─▶ AuditTrail ─▶ AuditQueue ─▶ AuditWriter (of the server) ─▶ one row each
    anybody else ───┘   O(1)                         bounded       in the background, in batches

What is noted: logins, refused calls, administration, changes of users and grants, and reads and writes of the tables
that the server's settings choose.

- Q1 `note` costs a few microseconds, waits for nothing and raises nothing: a call never fails because of its audit.
- Q2 Events that are the same (who, from where, what, with which result) within a second are one row with their count.
     Refused calls of one user, and those of everybody who proved nothing, make at most so many rows in a second, and so
     do reads and writes of one user; what is more of them is counted in rows of its own. A row is true of each event
     that it counts: it names no key that some of them do not have.
- Q3 The queue holds at most so many rows and bytes. What it has no room for is counted, and the count becomes a row.
- Q4 A row is gone from the queue when it is on stable storage. It is written again under its key until then.
- Q5 No row has a secret: no password, token or hash, no value, and no name that somebody claimed and no user has.
- Q6 While the catalog has no user nothing is noted, and there is no such table.

What is not here: where the events come from (`log_tier.access.call_audit` for gRPC,
`command_audit` and `access_notes` of the RESP endpoint) and how rows are written
(`duramen.server.wiring.audit_writer`).

Reading order: `audit_event.py`, `audit_row.py`, `audit_queue.py`, `row_format.py`, `audit_settings.py`,
`audit_trail.py`, `request_text.py`.
"""
