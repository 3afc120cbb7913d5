"""Snapshots: an index at one offset, kept where a node that starts anew can fetch it.

An index is a cache of the log, so nothing here is needed for correctness. A snapshot saves the time of folding the log
from its beginning, and it is what allows the log's beginning to be removed: from then on it is the beginning.

What holds:

- S1 Offset and content are of one LMDB transaction: the manifest's offset is read from the copy, never from the live
     index, which is somewhere else by then.
- S2 A snapshot exists when its manifest does. Files are written and synced first, the manifest last; what has no
     manifest is a leftover. Removal goes the other way round.
- S3 A taken snapshot was read back from the store before it is called one (I11 trims the log on that word).
- S4 Nothing is opened that was not checked: checksums of every piece against a manifest that checks itself, then the
     structure of the file, then whose it is and its applied offset. What fails is refused by name (I8).
- S5 An index folder is replaced by renames: it is the old one or the new one, and after a failure the old one.
- S6 The log is trimmed only below what a verified snapshot covers (I11); the newest snapshot, and one that somebody
     restores from, are not removed.

How a snapshot is made: `take.py` has LMDB write a compact copy of the live index in a thread, while applies and reads
go on; looks at its structure, asks it for its offset and computes its checksums (`contents.py`); and puts it in the
`SnapshotStore`. How one is used: `source_plan.py` says where an index can come from, in which order, and `sources.py`
tries one after the other: the newest good snapshot, an older one, a live peer's copy (`peer_copy.py`: sent while it is
made, with the same manifest behind it), the log's beginning. `install.py` receives, checks and puts in place.

The way a file is checked costs what the disk leaves over: CRC-32C runs at some 10 GB/s, the structure is looked at
page by page in bulk; `page_check.py` and `manifest.py` give the reasons and the figures.

What is not here: who takes snapshots when, which ones are known and which node restores from which: those are entries
and jobs of the catalog (`log_tier.catalog`, `serving_tier.jobs`). There are no incremental snapshots: the log is the
increment. Nothing is encrypted or compressed: an object store does the first, and random values leave little for the
second.

Reading order: `manifest.py` (pure), `snapshot_retention.py` (pure), `page_check.py`, `contents.py`, `local_disk.py`,
`store_url.py`, `snapshot_store.py`, `take.py`, `install.py`, `peer_copy.py`, `source_plan.py` (pure), `sources.py`,
`verification.py`;
`log_tier/concurrency/threads.py` is how the blocking parts run.
"""

from __future__ import annotations

from serving_tier.snapshots.install import install_snapshot, recover_folder
from serving_tier.snapshots.manifest import SnapshotManifest
from serving_tier.snapshots.peer_copy import CopyPart, CopySource, send_copy
from serving_tier.snapshots.snapshot_retention import snapshots_to_remove
from serving_tier.snapshots.snapshot_store import SnapshotStore
from serving_tier.snapshots.sources import bootstrap
from serving_tier.snapshots.take import take_snapshot

__all__ = [
    "CopyPart",
    "CopySource",
    "SnapshotManifest",
    "SnapshotStore",
    "bootstrap",
    "install_snapshot",
    "recover_folder",
    "send_copy",
    "snapshots_to_remove",
    "take_snapshot",
]
