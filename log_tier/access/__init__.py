"""Access: the decision whether a caller may do what a call asks for. One place, for every endpoint.

    ClusterMap ──▶ Gate.follow          Gate.decide(caller, demand) ──▶ the version that allowed it, or an error

- A1 No user in the catalog: the gate is open. From the first user on it is closed, and stays so (T3 of trust).
- A2 A decision is by the newest map that the process has folded, not by the one of the caller's proof: a revocation is
     in force from the turn in which its map comes, for what is open as well (`Gate.on_change`).
- A3 A server of the cluster may do everything; a user never what only servers may.

What is not here: the proof (passwords, tokens, certificates), and what each method of each service demands. No server
asks the gate yet.

Reading order: `demands.py`, `gate.py`.
"""
