"""A simulated machine: one thread, one clock, one seed; a disk, a network and processes around the real product.

Duramen runs on it as it is. What it takes of a machine has a seam, and each seam has its simulated part here:

| of a machine | seam of the product | here |
|---|---|---|
| time and threads | the event loop, `log_tier.concurrency.workers` | `simulated_loop.py` |
| clocks | `log_tier.concurrency.clocks` | `simulated_clock.py` |
| the log's disk | `log_tier.embedded.storage.disk` | `memory_disk.py`, `kernel_disk.py`, `simulated_disk.py` |
| a node's own disk | `serving_tier.disk` | `node_disk/` |
| the network | `log_tier.rpc.transport` | `simulated_network.py`, `simulated_server.py`, `simulated_grpc.py` |
| the sockets of the RESP endpoint | the event loop | `simulated_wire.py` |
| chance | `random`, `secrets` | `duramen/testing/running/seeded.py` |

Invariants:

- A seed is one run: nothing here is in the order of a set, and nothing reads a clock of the machine.
- Time hardly moves while anything can run, and jumps to the next timer when nothing can.
- A connection is in order; two connections overtake each other.
- A power loss keeps what was synced, and of the rest any subset of the sectors.
- Nothing that a killed process still does gets out of it.

LMDB is real, on a folder in memory; each of its write transactions is a call of the node's disk. Nothing here knows
what is tested: that is for `duramen.testing`, and for the simulation in Duramen's own repository.

Reading order: `story.py` (what happened), `simulated_loop.py`, `simulated_clock.py`, `fault.py`,
`memory_disk.py`, `kernel_disk.py` (what a kernel hides), `simulated_disk.py` (a disk through all lives of its
machine), `disk_faults.py`, `simulated_machine.py`, `simulated_network.py`, `resp_words.py`, `simulated_wire.py`,
`simulated_server.py`, `simulated_grpc.py`, `simulated_process.py`, `node_disk/` (the disk of a
node).
"""
