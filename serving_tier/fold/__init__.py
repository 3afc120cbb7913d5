"""The fold: what batches make of an index. Pure; the only place where operations have a meaning.

A batch and a view of what is stored go in, effects come out. There is no clock, no randomness and no dependence on
where one batch ends and the next begins, so two replicas at one offset hold equal keys, values and versions (I4).
Conditions and updates are decided here, in log order, once (I6). A producer's sequence makes a batch that was sent
twice take effect once (I2). What identifies the last batch is among the effects (`last_batch.py`).

Reading order: `numbers.py`, `entry.py`, `misfits.py`, `defined.py`, `decision.py`, `producers.py`, `verdicts.py`,
`stretch.py`, `last_batch.py`, `index_changes.py`, `index_builds.py`, `past.py`, `effects.py`, `grouped.py`,
`fold.py`.
"""
