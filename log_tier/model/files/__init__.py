"""What is said in files, and about them: one line of JSON with its checksum, and the finding of a verification. Pure.

Reading order: `sealed_json.py`, `finding.py`.
"""
