"""Versions: generations of a table's content, each built outside of the serving nodes and put into service as a whole.

A bulk build makes a version: a snapshot of every partition, in the format of `serving_tier.snapshots`, and one manifest
that lists them, at a URL. Each part names the log offset from which live writes go on, so the part and the log behind
it together are the table's content as the version's builder meant it.

What holds:

- V1 A version exists when its manifest does: parts first, each read back and verified, `version.json` last.
- V2 The manifest vouches for everything: itself, the parts' manifests by checksum, through them every byte (I8).
- V3 A version is of one table, by id, and of that table's partitions and partitioner: nothing else is ever staged.
- V4 A part has an offset of the log that existed when it was built (0 or higher): the log after it is what the part is
     completed with, and the version of a bulk entry, its "offset of the last write", is that offset.
- V5 A version never changes. A place that has one takes no other.

**What a restore needs.** A replica that is restored folds the log from a snapshot's offset. At each barrier on the way
it fetches the version that the barrier names from where that was built, catches up from the offset of the part, and
goes on. A version that was folded from the log is built nowhere: a restore passes a barrier back to it only if it began
with that version. So a snapshot of before the last barrier may need things that are gone, and

- the log is shortened only below a snapshot that holds the last barrier (C5 of `log_tier.catalog`);
- a restore prefers such a snapshot, then a live peer, then earlier ones, each of them once
  (`serving_tier/snapshots/source_plan.py`);
- a built version that was live is discarded only when each partition has such a snapshot, or by force;
- the schedule takes a snapshot at once when another version went live (`serving_tier.jobs.schedule`).

What remains: a rollback may bring back content that the log no longer has, since it was trimmed under a snapshot of the
version in between. Until the next snapshot that content is in the replicas alone. Holding the log back for as long as a
version is kept would avoid that; it would also make the log of a table that is rebuilt each week keep a week more.

A version with nothing in it is built nowhere: every node makes its part by itself (`empty.py`).

Reading order: `manifest.py` (pure), `version_store.py`, `empty.py`; then what a replica does with them:
`serving_tier/replica/version_folders.py`,
`serving_tier/replica/standby.py`, `serving_tier/node/staging.py`.
"""

from __future__ import annotations

from serving_tier.versions.manifest import VersionManifest, VersionPart
from serving_tier.versions.version_store import VersionStore

__all__ = ["VersionManifest", "VersionPart", "VersionStore"]
