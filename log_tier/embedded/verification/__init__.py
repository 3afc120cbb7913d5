"""Looking at a whole log that nobody has open: what is damaged, where, and what to do. Nothing is changed.

**What it promises.** Every byte that holds acknowledged writes is read and checked: each batch of each segment against
its two checksums, its place and its order. What the next start would find is found in the same words, because the same
code looks: recovery runs over an `OverlayDisk`, which keeps its changes in memory. Then everything that recovery leaves
for later is read as well: whole segments and not their ends alone, sparse indexes, and files that a clean close makes
superfluous.

**What is a finding.** `FileFinding.is_damage` (`log_tier.model.files.finding`) says that a file is not as it was
written. Where nothing is lost by it (a cache, a journal after a clean close) the message says so. The rest are notes: a
torn tail that the next start cuts, a topic that was half made, offsets that a repair gave up. None is a sign of a bad
disk.

**What it cannot see.** The limits of `segment_end` hold here too: with one copy, damage to exactly the last commit
before an unclean end looks like a write that was cut short, and is a note. A cache that is an older copy of itself is a
valid cache.

**What it deliberately does not do.** It repairs nothing: a finding's `remedy` says what does. It takes the folder's
lock without writing to it, so it works on a read-only file system, and not while a server has the folder.

Reading order: `overlay_disk.py`, `small_files.py`, `segments.py`, `verify.py`.
"""

from log_tier.embedded.verification.verify import LogVerification, verify_log

__all__ = ["LogVerification", "verify_log"]
