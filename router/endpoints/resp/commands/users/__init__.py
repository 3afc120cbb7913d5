"""What commands have to do with users: who may run which, and how a client asks for that.

Reading order: `access_rules.py`, `command_audit.py`, `access_notes.py`, `acl.py`.
"""
