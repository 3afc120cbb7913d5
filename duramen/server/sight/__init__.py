"""What a server knows about itself: one typed document, `StatusDocument`, from which everything that shows it is made.

    replicas, log, files ──▶ ServerSight.observe() ──▶ Observed ──▶ status_of_server() ──▶ StatusDocument ──▶ JSON
                          (the seam: clock, disk)      (a value)         (pure)

    histograms of its parts ──▶ Measures ──┐
                                           ├─▶ metrics_to_text() ──▶ GET /metrics
                          StatusDocument ──┘       (pure)

    calls that took long ──▶ SlowCallLog (`log_tier.slow_calls`) ──▶ its document ──▶ Cluster/SlowCalls, GET /slow

`Cluster/Status` and `GET /status` return the JSON; `duramen status` prints it, or says in three lines whether all is
well and, if not, the one thing to do first.

What holds:

- S1 The document is a function of `Observed` and of the caller's rights: no clock, no file. The same facts give the
     same document wherever it is shown.
- S2 A user sees those partitions alone whose tables are shown to it, and no trouble names another table. Whether the
     server is ready is the same for everybody; a reason that may not be shown is reported as one that is hidden.
- S3 An observation holds up the event loop for a few milliseconds at most, whatever the number of partitions: it works
     in turns, and files are read in a thread. It sends no request to another server, so it answers while the rest of
     the cluster does not. `LogWatch` asks the log's server in the background, and what it said last is observed.
- S4 What the server does not know is `null`, never a zero.
- S5 `ready` can turn false again, and then `troubles` has a reason that says why.
- S6 A client of the HTTP endpoint that is slow, large or hostile costs one connection of a bounded number, for seconds.
- S7 A partition and a node have at most ten series of metrics; nothing has a series for each key, connection or user.
     A counter never falls while the server runs.

`status_history.py` compares documents: rates and trends of a few minutes, for `duramen top` and the console.

What is not here: the cluster as a whole (`duramen admin` asks for it), and the history of an hour and a week, which is
the console's.

Reading order: `observed.py`, `clocks.py`, `troubles.py`, `status_document.py`, `status_history.py`, `measures.py`,
`metrics.py`, `log_watch.py`, `server_sight.py`, `http_limits.py`, `http_listener.py`, `http_places.py`,
`http_messages.py`, `http_attendance.py`, `http_endpoint.py`.
"""
