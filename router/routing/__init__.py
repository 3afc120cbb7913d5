"""The routed connection: the whole cluster as one `Connection`, from any process that knows the map.

A router serves it to its clients; the Python client has it in its own process, and is then one hop away from the node
that answers and from the log that is written.

What it promises:

- A read is answered by a replica that the map names, from a state that holds what the read asks for (`after`, `strong`,
  `lag_max_ms`). The replica itself sees to that; the choice made here only decides how long it takes.
- A part that one node cannot answer goes to another one, within the deadline: a node that is lost, that does not hold
  the partition (any more), whose replica lags or is damaged. Nobody gets a wrong answer, and an error only where every
  replica gave one, or the time is over.
- A batch is sent to the log once. What becomes of a lost reply is the client's business, which has the same bytes.
- A scan's page and a watch's events are what one node that held everything would give: in order, no gap, no duplicate.

How a request passes: `routes.py` names the candidates of each part; `choice.py` picks one (fresh ones first, then the
less loaded of two) and lets parts travel together; `scatter.py` asks them, and others if they fail; the files named for
the requests say what each of them asks and how its answers are joined. A late read, or a question for
outcomes, also goes to a second replica (`hedging.py`), within a budget.

What it deliberately does not do: keep state that matters (a router may vanish at any time), follow leaders (there are
none), decide what the cluster should be (the catalog does), repeat writes (only the client knows what it sent).

Reading order: `choice.py`, `targets.py`, `routes.py`, `retry_policy.py`, `scatter.py`, `hedge_budget.py`, `hedging.py`,
`reads.py`, `writes.py`, `scans.py`, `watches.py`, `tables.py`, `routed_connection.py`; then the
two choosers among connections: `failover.py` (several servers that can do the same) and `local_first.py` (a node's own
replicas before those of others).
"""
