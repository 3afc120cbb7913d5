"""Answers to an operator's questions: what there is, how far it is, where a key lies, whether replicas are equal.

Reading order: `json_text.py`, `listing.py`, `jobs.py`, `log_times.py`, `node_client.py`, `key_history.py`,
`explain.py`, `verify.py`.
"""
