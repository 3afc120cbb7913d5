"""`duramen admin …`: what an operator asks and does, over any server of the cluster.

What it promises:

- Every question has a table for people and, with `--json`, a JSON object per line with every field of the answer's
  message in `admin.proto`.
- Every command that changes something shows what it would do with `--dry-run`, and what that would cost. A command
  that destroys (trim, compact, retire, fewer replicas) asks first, or takes `--yes`; it begins the plan that it showed.
- A change is a job in the catalog. The command waits for it (`--no-wait`: does not) and ends with it: 0 done, 1 failed
  or aborted, 4 rejected. Ending the command ends nothing else: `duramen admin job ID` goes on watching.

Reading order: `arguments.py`, `connection.py`, `change.py` (plan, confirm, begin, wait), `progress.py`, `figures.py`,
`answer.py`, `rendering.py`, `minutes.py`; `verb_command.py` (a command from a verb's declaration); then any command
that is written out: `list.py`, `inspect.py`, `restore.py`, `versions.py`, `jobs.py`; `app.py` lists them all.

A module that declares commands imports what they need (gRPC, the answers' messages) when one of them runs:
`connection.py`, `change.py`, `progress.py`, `answer.py` and `rendering.py` import it at their top.
"""
