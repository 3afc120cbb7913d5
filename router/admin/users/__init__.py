"""Users, roles, grants and quotas, managed: `duramen.v1.Users` at every server.

    request ──▶ UsersService ──▶ UserAdmin ──▶ command of the catalog ──▶ fold decides ──▶ this server's gate has it
                                    │                                                          │
                                    └ a password's hash, a token's SHA-256, never the secret   └──▶ reply: the version

What holds:

- U1 The fold of the catalog decides every change (`log_tier.trust`); nothing is decided here by a map that may be old.
- U2 When a change is answered, the server that answers decides by it.
- U3 A secret passes in one direction and once: a password in, a new token out. It is in no error, log or listing.
- U4 What a caller makes for itself gives it no more than it has, and for no longer.

Reading order: `user_admin.py`, `users_service.py`, `users_client.py`.
"""
