"""What is asked about whole definitions of tables, and the numbers that the cluster gives their schemas.

Reading order: `checks.py`, `numbering.py`.
"""
