"""The settings of the roles: one TOML file each, the environment, flags.

What wins, from the strongest: a flag of the command line, the environment (`DURAMEN_NODE_PORT` is the node role's
`port`), the file, the default. A key that no role knows is an error and not ignored: a typo in a file would otherwise
be a default that nobody chose. Errors name the key, the file, and what was wrong.

There are few keys on purpose. What has one right value is a constant in the file that uses it, with its reason;
what depends on the machine or on the operator's wishes is here, with its unit in its name.

`deploy/*.toml` are these settings with every key, its default and its reason; a test keeps both in step.

Reading order: `models.py`, `loading.py`, `resp.py`, `exposure.py`.
"""
