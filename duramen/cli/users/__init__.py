"""Commands on users, roles, grants and quotas. No secret is on the argument list: every user of a machine can read it.

Reading order: `passwords.py`, `lifetime.py`, `connection.py`, `sizes.py`, `rendering.py`, `user.py`, `role.py`,
`rights.py`, `quota.py`.
"""
