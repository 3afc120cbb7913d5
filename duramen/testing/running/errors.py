"""What the kit raises. None of them is a `DuramenError`: a program that retries those must not swallow these."""

from __future__ import annotations

__all__ = [
    "ClusterEnded",
    "Killed",
    "NotJudged",
    "NotLevel",
    "NotSimulated",
    "PromiseBroken",
    "TooLong",
    "UnknownProcess",
]


class NotSimulated(RuntimeError):
    """The test uses something of the real machine that virtual time does not have: a socket, a thread, a sleep that
    blocks, a program of its own.

    Do: use asyncio's form of it, or test in real time, with `testing.Embedded` or `testing.Server`.
    """


class TooLong(AssertionError):
    """The test has not ended within its virtual time.

    Do: look for a loop that retries for ever, or give `limit_s` more.
    """


class UnknownProcess(ValueError):
    """A fault names a process that is not there. The message names those that are."""


class ClusterEnded(RuntimeError):
    """The cluster is not open: its `async with` block has ended, or has not begun."""


class NotLevel(AssertionError):
    """The cluster did not become level in time. The message says who lacks what, and which faults go on.

    Do: heal and start what you have cut and killed, or wait longer.
    """


class PromiseBroken(AssertionError):
    """A reply does not agree with the log: each line names the invariant, both values, and the calls.

    Do: report it to Duramen with the seed; a program cannot break these promises.
    """


class Killed(RuntimeError):
    """A program that the test waits for was killed by the test."""


class NotJudged(RuntimeError):
    """The checker cannot judge this history: its model has no fractions, and no numbers of more than 64 bits."""
