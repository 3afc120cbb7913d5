"""The embedded engine: a `Log` in files of this machine, owned by one process.

**What it promises.** An append that returned is on stable storage, at its offset, with its bytes. A reader sees nothing
that a crash could take back. A crash, at any time, costs nothing that was acknowledged; what it leaves half written is
cut and reported. Damage is something else: it is found by checksums, named to the byte, never cut and never served, and
it stops writes to its own partition only. A failed sync stops the whole log: it acknowledges nothing more. Writes that
were under way get `WriteUnknown`, later ones `LogStopped`.

**Invariants**, asserted in the code and broken on purpose in the tests:

- One process owns a folder (a lock that the kernel releases); one thread at a time writes segments: the *writer*, or on
  a quick disk a caller that has gathered everything (`commit/committer.py`).
- Segments of a partition tile its offsets: each one's `end` is the next one's `base`. Only the newest is written to.
- What readers may see moves in one place, `PartitionLog._publish`, after the sync.
- No lock that an append takes is held during a read, an open or a rename: a slow disk holds up who uses it. Files are
  opened by name, replaced and given up under a lock of their own (`PartitionLog.naming`).
- A sparse index is never trusted: an entry is used only if the batch at its position agrees.
- Open files are bounded: the most recently written segments stay open, the others are opened for a commit. A process
  that is out of descriptors refuses the call before anything is written (`Overloaded`), and the log goes on.
- Files come and go by rename, and the checkpoint records a removal before it happens; so recovery notices a missing
  file.

**How an append passes through.** `EmbeddedLog.append` checks the batch on the caller's side and queues it
(`committer`). The writer takes everything that is queued, stamps each batch with offset and log time, writes one run
per partition (`partition_log`), syncs once (the segment, or for several partitions the `journal`), publishes, and hands
each event loop its results with one call. There is no timer: what arrives during a sync shares the next one.

**How a read passes through.** `reader` serves from the newest batches in memory (`tail_cache`) as long as they hold
what is asked for, and otherwise from the files, in threads, a chunk ahead of the consumer (`cold_reader`). Every batch
that comes from a file is checked in `segment.read_run`. A follower that has caught up waits, and is woken once per
commit.

**How it opens.** `data_folder` takes the lock and lists the topics, the journal puts back what segments had lost (or
keeps the log closed, where acknowledged frames cannot be read), and `open_partition` looks at each partition: which
files should be there, where the newest ends (`segment_end`), and whether that is what journal and checkpoint prove. It
reads one index and some 64 KiB per segment, so ten million records open in milliseconds; the rest is checked when it is
read. After a clean close of many partitions a summary replaces these looks, and the log checks each partition at its
first use (`log_summary`).

**What it deliberately does not do.** It never looks at keys or values, except in `compaction`, which is called and not
scheduled here. It does not replicate: with one copy, damage to the last commit before a crash looks like a tear. It
does not merge small partitions into one file; the price is two files and a folder each. It does not retry a sync.

**Reading order**: `storage/` (what there is on the disk, and the seam to it), `segments/`,
`commit/`, `recovery/`, `upkeep/`, `closing.py`, `statistics.py`, and `engine.py`, which wires them; `verification/`
reads a log that nobody has open, and `repair/` repairs one from a copy. `docs/FORMATS.md` has the bytes.
"""

from log_tier.embedded.engine import EmbeddedLog
from log_tier.embedded.recovery.open_partition import RecoveryReport
from log_tier.embedded.statistics import EngineStatistics
from log_tier.embedded.storage.settings import EngineSettings

__all__ = ["EmbeddedLog", "EngineSettings", "EngineStatistics", "RecoveryReport"]
