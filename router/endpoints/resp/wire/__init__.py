"""The Redis protocol as bytes: commands in, replies out. No table, no log, no socket.

Reading order: `replies.py`, `error_replies.py`, `limits.py`, `arguments.py`, `fallback_parser.py`, `framing.py`,
`slow_replies.py` (which of them took long), `reply_queue.py` (replies of a connection in the order of its commands),
`fence.py` (in-band markers between a reader process and its server), `patterns.py`.
"""
