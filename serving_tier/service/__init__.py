"""What a serving node reports and sends to other processes: `duramen.v1.Node` over gRPC, and the client's side of it.

A node answers five kinds of calls in addition to reads. Each has one file that does it and one method of the service:

- **Status** (`status_feed.py`): the status of its replicas, as a stream. Routers choose replicas by it, `admin` shows
  it. What changed is computed once for all who listen; `replica_status.py` is its pure half.
- **Digest** (`digests.py`, `content_digest.py`): what a replica holds at one offset, in 16 bytes a bucket.
  `verify` asks all replicas of a partition for the same offset, a little ahead of where they are, and compares. With it
  comes what is wrong with the entries of the replica's ordered indexes (`entry_check.py`) and with
  its past (`past_check.py`).
- **Copy** (`copies.py`, `serving_tier.snapshots.peer_copy`): a replica's whole index, for a node that has none.
  `peer.py` is the receiver's end of the wire.
- **Tally** (`tallies.py`): what a replica's index counted of the log, to be compared with what the log holds.
- **Voids** (`voids.py`): which records of a range of offsets changed nothing, for programs that read the log directly.

What holds:

- N1 The receiver trusts nothing of this. A status may be old: the read itself carries the offset that it needs. A copy
     is checked piece by piece and looked at before it is opened.
- N2 Nothing here waits in the event loop or takes the applier's time: digests, copies and sizes have threads, and read
     in LMDB transactions of their own while writes go on.
- N3 Each has a limit (I12): followers of a status, digests and copies under way, keys of a listing. Beyond it the
  caller gets `Overloaded` at once, and asks another node, or later.
- N4 A replica that is closed does not wait for the end of a digest: that looks every few ms whether it is still
     wanted. It does wait for LMDB to write out a copy that was begun, some seconds for a GiB.

How a digest passes: the asker names an offset. `Replica.at_offset` cuts the chunk that the applier is about to get at
the end of the first batch that reaches it, opens a read transaction between the pieces, and lets the applier go on; a
thread walks over the keys; the reply names the transaction's applied offset. A replica that has applied more already
answers `OffsetPassed` with its offset, and the caller names a later one.

What is not here: which replicas a node should have (`serving_tier.node.hosting`), who asks whom (`router`), and reads
and writes of keys (`router.endpoints.grpc`).

Reading order: `served_rates.py`, `replica_status.py`, `status_feed.py`, `content_digest.py`, `entry_check.py`,
`past_check.py`, `digests.py`, `copies.py`, `tallies.py`, `voids.py`, `access_rules.py`, `shown_status.py`,
`server.py`, `peer.py`.
"""

from __future__ import annotations

from serving_tier.service.peer import NodePeer
from serving_tier.service.server import NodeService
from serving_tier.service.status_feed import NodeStatusFeed

__all__ = ["NodePeer", "NodeService", "NodeStatusFeed"]
