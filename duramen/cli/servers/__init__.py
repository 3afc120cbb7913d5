"""Commands that run servers or look at them: `up`, `serve`, `health`, `check`.

Reading order: `up.py`, `announcer.py`, `role_announcer.py`, `serve.py`, `fork_server.py`, `secret_arguments.py`,
`health.py`, `check.py`, `self_test.py`.
"""
