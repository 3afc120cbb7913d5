"""What a client knows of its servers before the first call: their addresses, who calls them, and the proof of it.

Programs, the command line, and Spark's driver and executors read the same addresses, options and environment variables.

Reading order: `client_target.py`, `client_credentials.py`, `kept_credentials.py`, `pem_files.py`.
"""
