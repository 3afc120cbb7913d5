"""Repairing a log that nobody has open, from a copy of it.

**What it promises.** What is damaged and has a copy is put back byte for byte, and what is a cache is made anew.
Nothing that was acknowledged is given up but the offsets that the operator names: where the copy lacks one, the
partition is refused, with the numbers. What is given up is void for every reader alike, and its offsets are never used
again.

**Invariants.**

- The copy is only read, under its lock. So is the damaged log until the plan is complete.
- A file is replaced by a rename, when the new one is whole and on stable storage. The old one stays next to the log,
  in a folder `repair-<n>`, until somebody removes it.
- What proves a loss (a journal, an index, a batch behind the damage) goes only after the checkpoint says the same.
- A repair that ends at any place leaves the old state, the new one, or one that the same repair finishes.
- Of the log the damaged files are written, and no other.

**How a repair passes through.** `repair` locks both folders. `planning` puts in place, in memory, what stands in the
way (`documents`, `journal_files`), and reads every partition (`survey`): runs of whole batches, and holes.
`partition_plan`, which is pure, decides for each hole, after `comparison` has decided whether the copy is of the same
history. `rewriting` writes the files, and opens each partition as a start does: what is not whole then is not called
repaired.

**What becomes of offsets that are given up.** Empty shells take their place, as after a compaction, so every reader
steps over them; the checkpoint names them. Indexes and snapshots that hold their records are of another history than
the log now: `Bounds` says from where on, and a no-op record at the log's end says up to where. Such an index is
discarded and built anew (`serving_tier/index/divergence.py`), so all replicas agree. A partition that was trimmed needs
a copy of an index in any case; what is given up at its beginning is trimmed as well, and no index is discarded.

**What it deliberately does not do.** It repairs no index and no snapshot: an index is folded again. It does not take
more from a copy than the damage asks for, also where the copy ends later. It puts nothing together of two copies: name
one after the other.

Reading order: `facts.py`, `segment_walk.py`, `survey.py`, `comparison.py`, `partition_plan.py`, `copy_log.py`,
`old_files.py`, `documents.py`, `journal_files.py`, `planning.py`, `rewriting.py`, `repair.py`.
"""

from log_tier.embedded.repair.planning import GiveUp, RepairPlan, RepairStep
from log_tier.embedded.repair.repair import LogRepair

__all__ = ["GiveUp", "LogRepair", "RepairPlan", "RepairStep"]
