"""How busy a node is: what a router compares before it sends a read to one of two equal replicas."""

from __future__ import annotations

from types import TracebackType

__all__ = ["Load"]


class Load:
    """Requests under way. `with load:` around each; one event loop's, and 0.1 µs."""

    __slots__ = ("under_way",)

    def __init__(self) -> None:
        self.under_way = 0

    def __enter__(self) -> None:
        self.under_way += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.under_way -= 1
