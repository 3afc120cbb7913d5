"""The roles that a process can have: log, node, router, or all of them in one.

    log_role      the embedded log behind gRPC; owns the data that must not be lost
    node_role     a serving node: replicas and their endpoints
    router_role   a router: no state
    all_in_one    log, node and data plane in one process, on one port: `duramen up`

Each is an object with `open()`, `port` and `close()`, and nothing starts before `open`. What they share is the shell
(`grpc_server.py`): a gRPC server that takes its port before anything is opened (so that a second process on that port
harms nothing), reports its health, reflects its services, and stops without dropping what is under way.

What holds:

- R1 A role takes requests only when it can answer them, and says through the health service what it can do.
- R2 SIGTERM and SIGINT end it cleanly: no new work, streams end with a reason, calls under way get two seconds, indexes
     and log are closed. A second signal ends it at once, which loses nothing that was acknowledged.
- R3 Once the catalog has users, every call of every service passes one guard (`log_tier.access`); health and reflection
     answer everybody.
- R4 With certificates, the log answers servers only, from the first call on.
- R5 A node is who its data folder says it is (`duramen/server/wiring/node_folder.py`); a second one of the same name is
     refused by the catalog, and one whose name another folder has taken over stops by itself.

What is not here: how many processes there are and that they run (`duramen.server.supervisor`, systemd, Kubernetes), and
where their settings come from (`duramen.server.settings`).

Reading order: `grpc_server.py`, `reflected_names.py`, `guarding.py`, `servers_only.py`, `passed_log.py`,
`resp_endpoint.py`, `http_port.py`, `readers.py` and `reader_process.py` (more processes that read), `log_role.py`,
`node_role.py`, `router_role.py`, `all_in_one.py`, `run.py`, `kv.py`.
"""
