"""Mutants: small changes of the product, each of which some test must notice.

```
python -m tests.mutants --sample 200 --seed 1                # all of the sample: hours of one processor
python -m tests.mutants --sample 200 --seed 1 --first 0 --count 20   # a part of it
```

A mutant is one change of one expression or statement in `log_tier/embedded`, the fold, the replica, or the gatherer of
writes: a comparison, a boolean, a number, a condition turned around, a call left out. It runs in a copy of the
repository. First come the tests of its own module, then those of its package, then seeds of the simulation; the first
that fails kills it, and so does a run that takes too long. What survives is printed with its line: either no test can
tell it from the product, or a test is missing.

Why not mutmut or cosmic-ray: both run one command for every mutant. This suite needs the nearest tests first, then its
package's, then seeds of a simulation in a process of its own; with one command a mutant takes minutes in place of
seconds.

**Reading order**: `changes.py`, `tests_of.py`, `__main__.py`.
"""
