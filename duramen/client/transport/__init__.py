"""How the client's calls reach a database: one server, the nodes themselves, the server's RESP endpoint, or threads.

`connect.py` asks an address for the cluster's map and chooses between one gRPC connection and routing in this process,
which `routing.py` opens. `deferred.py` connects at the first call, for a process that forked or was handed a database.
`retry.py` asks a question again until a server answers. `loop_thread.py` carries blocking calls into the process's
event loop. `resp_fast_path.py` sends blocking gets and puts to the RESP endpoint of a server that is the whole cluster,
and by gRPC where many call at once, which `crowd.py` finds out.
`observer.py` is the seam at which a test sees every call of a client. What proves who calls is in
`log_tier.access.client`.

Reading order: `observer.py`, `retry.py`, `connect.py`, `routing.py`, `deferred.py`, `loop_thread.py`,
`crowd.py`, `resp_fast_path.py`.
"""
