"""Group commit: one thread writes for all partitions and makes each group of batches stable with one sync.

A batch is acknowledged after that sync and never before (I1). A commit that touches one partition syncs its segment; a
commit that touches several syncs the journal instead, which holds their bytes until the segments are synced. A failed
sync is final (I9): the log stops and says why.

A commit with callers that are traced has spans of its own (`traced_commit.py`), made after everybody has an answer.

Reading order: `lone_calls.py`, `journal_room.py`, `journal_format.py`, `journal.py`, `journal_replay.py`, `room.py`,
`commit_errors.py`, `appends.py`, `traced_commit.py`, `committer.py`, `batch_checks.py` (what is checked before, and
where).
"""
