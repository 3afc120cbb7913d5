"""The server: roles, their settings, how their parts are wired, and the processes of `duramen up`.

A role is what one process does: keep the log, host a node, route, or all of these. `settings/` reads a role's
settings from TOML, environment and flags; `wiring/` puts the parts of a node or of a single machine together;
`sight/` is what a server knows about itself; `console/` keeps its history and shows all of it in a browser;
`registry/` is where others read the schemas of rows; `kept/` is what of that outlives the server; `supervisor/` runs
several roles as processes of one machine; `roles/` opens them behind a port until a signal; `log_lines/` is how they
log.

Reading order: `log_lines/`, `settings/`, `wiring/`, `sight/`, `console/`, `registry/`, `kept/`, `supervisor/`,
`roles/`.
"""
