"""Access: who calls, and may they do what the call asks for. One place decides, for every endpoint.

    certificate ─┐
    token ───────┼─▶ Authenticator ──▶ Caller ─┐
    password ────┘                             ├──▶ Gate.decide ──▶ the version that allowed it, or an error
    request ──▶ Rule of its method ──▶ Demand ─┘         ▲
                                                         └── ClusterMap: users, roles, grants

- A1 No user in the catalog: the gate is open. From the first user on it is closed, and stays so (T3 of trust).
- A2 A decision is by the newest map that the process has folded, not by the one of the caller's proof: a revocation is
     in force from the turn in which its map comes, for open streams and connections as well (`Gate.on_change`). So is
     the first user, for calls that began before.
- A3 A server of the cluster may do everything; a user never what only servers may.
- A4 A method without a rule is for servers alone.
- A5 A password is checked in a thread, and once; never for each call.
- A6 Who proved nothing learns nothing: not which user exists, nor which table. A user learns of those tables alone in
     which some grant gives it a right: of another one, what is answered does not depend on whether it is there.
- A7 What the audit has of a call is noted where the call is decided (`log_tier.audit`).

What is not here: what each service's methods demand (a module of rules is next to each of them; `log_rules.py` has
those of this tier), the certificates of connections, and the commands that make users.

Reading order: `demands.py`, `shown_tables.py`, `gate.py`, `tokens.py`, `passwords.py`, `attempts.py`,
`authenticator.py`, `expiry_timer.py`, `rules.py`, `log_rules.py`, `quotas/` (what users may take), `current.py`,
`user_turns.py` (threads, which users take in turns), `demand_parts.py`, `call_audit.py`, `guard.py`; then `client/`,
the caller's side.
"""
