"""The observer of the clients of a run: each client is shown to those who ask for clients of its servers."""

from __future__ import annotations

from collections.abc import Sequence

from duramen.client.transport.observer import ClientObserver, ClientWays

__all__ = ["RunObserver"]


class RunObserver:
    """A `ClientObserver` made of several; the first that takes a client has it."""

    def __init__(self) -> None:
        self._observers: list[ClientObserver] = []

    def add(self, observer: ClientObserver) -> None:
        """From now on it is shown new clients."""
        self._observers.append(observer)

    def remove(self, observer: ClientObserver) -> None:
        """It is shown no more clients."""
        self._observers.remove(observer)

    def observe(self, targets: Sequence[str], ways: ClientWays) -> ClientWays:
        for observer in self._observers:
            taken = observer.observe(targets, ways)
            if taken is not ways:
                return taken
        return ways
