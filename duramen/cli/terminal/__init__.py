"""What every command shares: options, output for people and programs, text for bytes, exit codes.

Reading order: `text.py`, `output.py`, `console.py`, `exits.py`, `options.py`, `tls_options.py`, `connection.py`,
`absent_keys.py`, `status_client.py`, `asked_commands.py`.
"""
