"""Commands on a folder of certificates: `cert init`, `cert issue`, `cert rotate`, `cert show`. They need no server.

Reading order: `app.py` (the commands), `rendering.py` (what they print; imported when one runs).
"""
