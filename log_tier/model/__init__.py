"""The vocabulary of Duramen: what a record, a batch, an offset, a token and an error are. Pure.

Every tier speaks these words, and none of them knows a socket, a file, a thread or a clock. A batch has the same bytes
in memory, on the wire and on the disk, so the two modules that know its bytes (`batch_header.py`, `batch.py`) are the
only ones that encode or decode it. `docs/FORMATS.md` shows those bytes with a worked example.

What holds:

- An offset is inclusive, and -1 (`NOTHING`) means that nothing was written, applied or seen yet.
- A key's partition is a pure function of the key, the number of partitions and the table's partitioner.
- Tokens merge by maximum; merging is associative, commutative and idempotent.
- An error knows whether a retry can help and whose fault it is. `log_tier/rpc/status_codes.py` alone knows gRPC's
  codes.

What this package does not do: it stores nothing and sends nothing. `log.py` is the seam: the `Log` protocol that every
engine implements and everything above the log tier uses.

Reading order: `identifiers.py`, `errors/`, `record.py`, `batch_header.py`, `batch.py`, `batch_cut.py`,
`barrier.py`, `prefix_range.py`, `leading_elements.py`, `partitioner.py`, `retention.py`, `kept_history.py`,
`table_ref.py`, `tokens.py`, `moves.py`, `log.py`; `files/`.
"""
