"""Answers to an operator's questions: what there is, how far it is, where a key lies, whether replicas are equal.

An answer is a message of `router/proto/admin.proto`, from where it is made to where it is printed; only `document.py`
makes JSON of it.

Reading order: `json_text.py`, `argument_messages.py`, `listing.py`, `versions.py`, `plans.py`, `jobs.py`,
`log_times.py`, `node_client.py`, `record_texts.py`, `key_history.py`, `explain.py`, `verify.py`,
`changes.py`, `document.py`.
"""
