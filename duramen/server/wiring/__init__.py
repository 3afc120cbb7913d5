"""The wiring of a node and of a single machine: which parts there are, and in which order they open and close.

Reading order: `collector.py`, `allocator.py`, `foreign_names.py`, `node_folder.py`, `register.py`,
`serving_node.py`, `single_machine.py`, `folder_verification.py`, `folder_repair.py`, `server_certificates.py`,
`first_user.py`, `audit_writer.py`.
"""
