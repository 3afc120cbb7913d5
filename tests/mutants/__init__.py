"""Mutants: small changes of the product, each of which some test must notice.

```
python -m tests.mutants --sample 200 --seed 1                        # what becomes of each, and the share killed
python -m tests.mutants --sample 200 --seed 1 --survivors            # only those that no test notices
python -m tests.mutants --sample 200 --seed 1 --first 40 --count 20  # a part of the sample
```

A mutant is one change of one expression or statement in `log_tier/embedded`, the fold, the replica, or the gatherer of
writes: a comparison, a boolean, a number, a condition turned around, a call left out. Only tests that reach the changed
statement can notice it, and most mutants need one test of a few milliseconds:

1. The nearby tests run once under coverage, one context each. That gives a map from lines to tests, which is kept in
   `.data/mutants/`. A changed test file runs again alone; a changed product gives a new map.
2. One process collects these tests once. For each mutant it forks. The child gives the live functions of the mutant's
   file the changed code, and runs the tests that reach the statement, the quick and near ones first, until one fails.
3. A test that takes far longer than it took is a killer too: some mutants make a loop endless.

A survivor is a missing test, a line that nothing needs, or a change that makes no difference. `equivalent.py` lists
the last kind, each with its reason: these count as explained. An entry whose mutant is gone fails `test_equivalent.py`.

A killer is a test that passed on the product. Tests on a busy machine can fail without a mutant's help, so the share is
an upper bound by as much.

What this does not do: change messages, annotations, assertions, constants of modules, or anything outside the four
folders; notice by processes that a test starts, which run the product unchanged.

Why not mutmut or cosmic-ray: both run one command for every mutant, and start it anew. Here that takes half a minute
before the first test.

**Reading order**: `changes.py`, `equivalent.py`, `line_map.py`, `statements.py`, `transplant.py`, `worker.py`,
`__main__.py`.
"""
