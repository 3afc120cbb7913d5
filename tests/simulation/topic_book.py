"""Which topics a log must have, and which not: what came of each creation and deletion, over all lives of the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from simulation.book import Broken

__all__ = ["TopicBook"]


class TopicBook:
    """Topics by id; their ids are never used again."""

    def __init__(self) -> None:
        self._known: dict[str, Literal["there", "unknown", "gone"]] = {}

    def created(self, topic: str) -> None:
        """A creation was acknowledged."""
        self._known.setdefault(topic, "there")

    def deleting(self, topic: str) -> None:
        """A deletion begins: until it is acknowledged, nobody knows."""
        if self._known.get(topic) != "gone":
            self._known[topic] = "unknown"

    def deleted(self, topic: str) -> None:
        """A deletion was acknowledged."""
        self._known[topic] = "gone"

    def check(self, found: Iterable[str]) -> None:
        """Hold the topics of a log against what was said. O(topics)."""
        there = set(found)
        for topic, state in self._known.items():
            if state == "there" and topic not in there:
                raise Broken("acknowledged", f"topic {topic} was created, and is gone")
            if state == "gone" and topic in there:
                raise Broken("acknowledged", f"topic {topic} was deleted, and is there again")
