"""Mistakes to plant in a specification: where each is found, and by which property."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["PLANTED", "Mistake"]


class Mistake(NamedTuple):
    """A value of the constant `Bug`."""

    model: str
    bug: str
    found_by: str


PLANTED: Final = (
    Mistake("ExactlyOnce-retries", "duplicates take effect", "OneEffect"),
    Mistake("ExactlyOnce-retries", "a retry with a new sequence", "OneEffect"),
    Mistake("ExactlyOnce-retries", "two batches under way", "Answered"),
    Mistake("ExactlyOnce-retries", "the second copy answers", "Answered"),
    Mistake("ExactlyOnce-compaction", "outcomes that a compaction took", "Answered"),
    Mistake("ExactlyOnce-window", "the window forgets the youngest", "OneEffect"),
    Mistake("ExactlyOnce-compaction", "a restore forgets the producers", "Equal"),
    Mistake("ExactlyOnce-compaction", "a restore forgets the producers", "Served"),
    Mistake("ExactlyOnce-compaction", "a compaction drops a producer's newest batch", "Served"),
    Mistake("ExactlyOnce-compaction-large", "a compaction drops what a duplicate repeats", "Served"),
    Mistake("ExactlyOnce-compaction", "a replay answers on its way", "Served"),
    Mistake("ExactlyOnce-deletes", "an old index goes on without the deletes", "Served"),
    Mistake("ExactlyOnce-compaction", "a manifest ahead of its data", "Copies"),
    Mistake("ExactlyOnce-compaction", "a trim past the snapshot", "Restorable"),
    Mistake("ExactlyOnce-level", "a trim past the snapshot", "Level"),
    Mistake("ReadYourWrites-moves", "a session forgets its writes", "NoneOlder"),
    Mistake("ReadYourWrites-moves", "a read does not wait", "NoneOlder"),
    Mistake("ReadYourWrites-floors", "a floor forgotten at a restart", "NoneLess"),
    Mistake("ReadYourWrites-moves", "a manifest ahead of its data", "Alike"),
    Mistake("ReadYourWrites-moves", "a move does not wait", "Hosted"),
    Mistake("ReadYourWrites-late", "a barrier takes effect twice", "Exact"),
    Mistake("ReadYourWrites-swaps", "the old version goes over the barrier first", "Exact"),
    Mistake("ReadYourWrites-swaps", "a barrier is passed over", "Exact"),
    Mistake("ReadYourWrites-swaps", "a version decides anew", "Alike"),
    Mistake("ReadYourWrites-swaps", "a version skips what was written since its base", "Alike"),
    Mistake("ReadYourWrites-swaps", "a trim below a snapshot of before the barrier", "Way"),
    Mistake("ReadYourWrites-level", "nobody fetches the version of a barrier", "Level"),
)
