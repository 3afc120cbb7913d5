"""Users, roles, grants and quotas: who may do what, at one version of the catalog. Pure.

    command ──▶ trust_fold ──▶ TrustState (part of the catalog's map) ──▶ Rights of one user ──▶ Caller

What holds:

- T1 Rights follow from the catalog's log alone: every server that folded it up to one version decides the same.
- T2 Default is to deny. A grant adds rights; nothing takes some of a grant's rights away but its revocation.
- T3 Once there is a user, there is always one with `admin *`. Nobody removes the last one.
- T4 A command that is repeated, by its sender or by somebody who recorded it, has one effect or is refused.
- T5 A key prefix that one grant covers as a whole may be scanned; several grants do not add up to a range.
- T6 No secret is in the state in plain: a password's hash, a token's SHA-256.

What is not here: how somebody proves who they are, and where decisions are asked for (`log_tier.access`).

Reading order: `names.py`, `grants.py`, `rights.py`, `quotas.py`, `users.py`, `caller.py`, `proofs.py`,
`trust_commands.py`, `trust_fold.py`.
"""
