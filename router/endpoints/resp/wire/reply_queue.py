"""What leaves a connection: replies in the order of their commands, some of which are not there yet.

Replies that are complete leave with one write. A client that does not read its replies is **stalled**: its commands are
not read, and it is dropped when it takes nothing for a minute, or its replies pass their limit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from router.endpoints.resp.wire.limits import OUTPUT_BYTES_MAX, OUTPUT_PAUSE_BYTES, OUTPUT_STALL_S
from router.endpoints.resp.wire.replies import OK

__all__ = ["Pending", "ReplyQueue", "Slot"]


class Pending(Protocol):
    """The place of replies that are not there yet."""

    @property
    def reply(self) -> bytes | None:
        """All of them, when they are there."""
        ...


class Slot:
    """The place of the replies to writes of several partitions. `part(n)` waits for the n-th of them."""

    __slots__ = ("_errors", "_left", "_outbox", "_places", "reply")

    def __init__(self, reply_queue: ReplyQueue, places: Sequence[int], parts: int = 1) -> None:
        """`places`: for each command, which part it is in."""
        self.reply: bytes | None = None
        self._outbox = reply_queue
        self._places = places
        self._left = parts
        self._errors: dict[int, DuramenError] = {}

    def part(self, number: int) -> _Part:
        """What the writer tells of one part."""
        return _Part(self, number)

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """See `Waiter`: for a slot of one part."""
        self.settle_part(0, error)

    def settle_part(self, number: int, error: DuramenError | None) -> None:
        """One part's fate is known; with the last one the replies are there."""
        if error is not None:
            self._errors[number] = error
        self._left -= 1
        if self._left:
            return
        places = self._places
        if not self._errors:
            self.reply = OK * len(places)
        else:
            report = {number: self._outbox.tell(error) for number, error in self._errors.items()}
            self.reply = b"".join(report.get(place, OK) for place in places)
        self._outbox.unanswered -= len(places)
        self._outbox.filled()


class _Part:
    __slots__ = ("_number", "_slot")

    def __init__(self, slot: Slot, number: int) -> None:
        self._slot = slot
        self._number = number

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """See `Waiter`."""
        self._slot.settle_part(self._number, error)


class ReplyQueue:
    """The outgoing half of a connection.

    `filled` is called when a slot got its reply, `tell` makes the reply of an error, `drop` ends the connection.
    """

    __slots__ = (
        "_drop",
        "_loop",
        "_replies",
        "_stall",
        "_transport",
        "_write",
        "filled",
        "gathered_bytes",
        "tell",
        "unanswered",
        "waits",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        filled: Callable[[], None],
        tell: Callable[[DuramenError], bytes],
        drop: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._write = transport.write
        self._loop = loop
        self._replies: list[bytes] = []
        self.waits: deque[Pending | bytes] = deque()
        """Replies in order, from the first one that is not there yet; empty: none is missing."""
        self._stall: asyncio.TimerHandle | None = None
        self.filled = filled
        self.tell = tell
        self._drop = drop
        self.gathered_bytes = 0
        """Of replies that have not left yet."""
        self.unanswered = 0
        """Commands whose replies are not there yet."""
        transport.set_write_buffer_limits(high=OUTPUT_PAUSE_BYTES)

    @property
    def stalled(self) -> bool:
        """Has the client left too many replies unread?"""
        return self._stall is not None

    @property
    def unread_bytes(self) -> int:
        """Replies that it has not read."""
        return self._transport.get_write_buffer_size()

    def emit(self, reply: bytes) -> None:
        """The next reply, in its bytes."""
        self.gathered_bytes += len(reply)
        if self.waits:
            self.waits.append(reply)
        else:
            self._replies.append(reply)

    def reserve(self, slot: Pending, commands: int) -> None:
        """The next replies, which a slot will have."""
        self.waits.append(slot)
        self.unanswered += commands

    def flush(self) -> None:
        """Send what is complete."""
        slots, replies = self.waits, self._replies
        while slots:
            head = slots[0]
            reply = head if isinstance(head, bytes) else head.reply
            if reply is None:
                break
            replies.append(reply)
            slots.popleft()
        if replies:
            self._replies = []
            self.gathered_bytes = 0
            self.push(replies[0] if len(replies) == 1 else b"".join(replies))

    def push(self, data: bytes) -> None:
        """Something that leaves now, before whatever waits."""
        self._write(data)
        if self._stall is not None and self._transport.get_write_buffer_size() > OUTPUT_BYTES_MAX:
            self._drop(f"{OUTPUT_BYTES_MAX} bytes wait for it, and it does not read them")

    def stall(self) -> None:
        """The client does not read."""
        if self._stall is None:
            self._stall = self._loop.call_later(
                OUTPUT_STALL_S, self._drop, f"it has not read its replies for {OUTPUT_STALL_S:g} s"
            )

    def resume(self) -> None:
        """It has read most of them."""
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
