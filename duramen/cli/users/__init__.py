"""Commands on users, roles and grants. No secret is on the argument list, which every user of a machine can read.

Reading order: `passwords.py`, `lifetime.py`, `connection.py`, `rendering.py`, `user.py`, `role.py`, `rights.py`.
"""
