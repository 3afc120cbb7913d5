"""What leaves a connection: replies in the order of their commands, some of which are not there yet.

Replies that are complete leave with one write. A client that does not read its replies is **stalled**: its commands
wait as the bytes that came. It is dropped when for a minute it has neither taken nor sent a byte, or its replies pass
their limit: progress in either direction is a sign of life.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset
from router.endpoints.resp.wire.limits import OUTPUT_BYTES_MAX, OUTPUT_PAUSE_BYTES, OUTPUT_STALL_S
from router.endpoints.resp.wire.replies import OK
from router.endpoints.resp.wire.slow_replies import NOT_MEASURED, SlowReplies, WaitedCommand

__all__ = ["PendingReply", "ReplyQueue", "Slot"]

# Replies of more bytes leave one by one: putting them together costs more than a system call's entry for each.
_LONG: Final = 64 * 1024


class PendingReply(Protocol):
    """The place of replies that are not there yet."""

    began_s: float
    """When the first command came whose reply it is, by the clock of `SlowReplies`."""
    command: WaitedCommand
    """That command."""

    @property
    def reply(self) -> bytes | None:
        """All of them, when they are there."""
        ...


class Slot:
    """The place of the replies to writes of several partitions. `part(n)` waits for the n-th of them."""

    __slots__ = ("_errors", "_left", "_places", "_reply_queue", "began_s", "command", "reply")

    began_s: float
    command: WaitedCommand

    def __init__(self, reply_queue: ReplyQueue, places: Sequence[int], parts: int = 1) -> None:
        """`places`: for each command, which part it is in."""
        self.reply: bytes | None = None
        self._reply_queue = reply_queue
        self._places = places
        self._left = parts
        self._errors: dict[int, DuramenError] = {}

    def part(self, number: int) -> _Part:
        """The `WriteWaiter` of one part."""
        return _Part(self, number)

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        """See `WriteWaiter`: for a slot of one part."""
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
            report = {number: self._reply_queue.encode_error(error) for number, error in self._errors.items()}
            self.reply = b"".join(report.get(place, OK) for place in places)
        self._reply_queue.unanswered -= len(places)
        self._reply_queue.filled()


class _Part:
    __slots__ = ("_number", "_slot")

    def __init__(self, slot: Slot, number: int) -> None:
        self._slot = slot
        self._number = number

    def settle(self, error: DuramenError | None, offset: Offset) -> None:
        self._slot.settle_part(self._number, error)


class ReplyQueue:
    """The outgoing half of a connection.

    `filled` is called when a slot got its reply, `encode_error` makes the bytes of an error reply, `drop` ends the
    connection.
    """

    __slots__ = (
        "_closed",
        "_drop",
        "_heard",
        "_loop",
        "_meter",
        "_replies",
        "_stall",
        "_stall_s",
        "_transport",
        "_unread_bytes",
        "_write",
        "encode_error",
        "filled",
        "gathered_bytes",
        "slow",
        "stalled",
        "unanswered",
        "waits",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        *,
        filled: Callable[[], None],
        encode_error: Callable[[DuramenError], bytes],
        drop: Callable[[str], None],
        stall_s: float = OUTPUT_STALL_S,
        slow: SlowReplies = NOT_MEASURED,
    ) -> None:
        """`stall_s`: infinite where a reader process sees to a client that stalls. `slow`: measures what waits."""
        self.slow = slow
        self._transport = transport
        self._write: Callable[[bytes], None] = transport.write
        self._meter: Callable[[int], None] | None = None
        self._loop = loop
        self._replies: list[bytes] = []
        self.waits: deque[PendingReply | bytes] = deque()
        """Replies in order, from the first one that is not there yet; empty: none is missing."""
        self.stalled = False
        """Has the client left too many replies unread?"""
        self._stall_s = stall_s
        self._stall: asyncio.TimerHandle | None = None
        self._heard = False
        """Has it sent something since `_stall` was set?"""
        self._unread_bytes = 0
        """What it had not read then."""
        self._closed = False
        self.filled = filled
        self.encode_error = encode_error
        self._drop = drop
        self.gathered_bytes = 0
        """Of replies that have not left yet."""
        self.unanswered = 0
        """Commands whose replies are not there yet."""
        transport.set_write_buffer_limits(high=OUTPUT_PAUSE_BYTES)

    def measure(self, meter: Callable[[int], None]) -> None:
        """Call `meter` with the bytes of all that leaves from now on."""
        write = self._transport.write

        def write_measured(data: bytes) -> None:
            meter(len(data))
            write(data)

        self._meter, self._write = meter, write_measured

    @property
    def unread_bytes(self) -> int:
        """Replies that it has not read."""
        return self._transport.get_write_buffer_size()

    @property
    def held_bytes(self) -> int:
        """All replies that have not left this process."""
        return self._transport.get_write_buffer_size() + self.gathered_bytes

    def emit(self, reply: bytes) -> None:
        """The next reply, in its bytes."""
        self.gathered_bytes += len(reply)
        if self.waits:
            self.waits.append(reply)
        else:
            self._replies.append(reply)

    def emit_pieces(self, pieces: Sequence[bytes]) -> None:
        """The next reply, in pieces that leave as they are."""
        if self.waits:
            self.waits.extend(pieces)
        else:
            self._replies += pieces
        self.gathered_bytes += sum(map(len, pieces))

    def reserve(self, slot: PendingReply, commands: int, command: WaitedCommand) -> None:
        """The next replies, which a slot will have. `command`: the first of those that are answered."""
        slot.began_s, slot.command = self.slow.now_s(), command
        self.waits.append(slot)
        self.unanswered += commands

    def flush(self) -> None:
        """Send what is complete."""
        slots, replies = self.waits, self._replies
        now_s, slow = 0.0, self.slow
        while slots:
            head = slots[0]
            if isinstance(head, bytes):
                replies.append(head)
            else:
                reply = head.reply
                if reply is None:
                    break
                replies.append(reply)
                now_s = now_s or slow.now_s()
                if now_s - head.began_s >= slow.least_s:
                    slow.ran(head.command, head.began_s, reply.startswith(b"-"))
            slots.popleft()
        if replies:
            self._replies = []
            self.gathered_bytes = 0
            if len(replies) > 1 and (len(replies[0]) > _LONG or len(replies[-1]) > _LONG):
                self._send_lines(replies)
            else:
                self.push(replies[0] if len(replies) == 1 else b"".join(replies))

    def push(self, data: bytes) -> None:
        """Something that leaves now, before whatever waits."""
        if self._closed:
            return
        self._write(data)
        if self.stalled:
            self._check_room()

    def _send_lines(self, replies: list[bytes]) -> None:
        if self._closed:
            return
        if self._meter is not None:
            self._meter(sum(map(len, replies)))
        self._transport.writelines(replies)
        if self.stalled:
            self._check_room()

    def _check_room(self) -> None:
        unread = self._transport.get_write_buffer_size()
        if unread > OUTPUT_BYTES_MAX:
            self._drop(f"it does not read, and {unread} bytes of replies wait for it, more than {OUTPUT_BYTES_MAX}")

    def close(self) -> None:
        """Close the queue: no further reply is sent."""
        self._closed = True

    def stall(self) -> None:
        """The client does not read."""
        if not self.stalled:
            self.stalled = True
            if self._stall_s < math.inf:
                self._watch()

    def heard(self) -> None:
        """The client sends, though it does not read."""
        self._heard = True

    def _watch(self) -> None:
        self._heard, self._unread_bytes = False, self.unread_bytes
        self._stall = self._loop.call_later(self._stall_s, self._look)

    def _look(self) -> None:
        if self._heard or self.unread_bytes < self._unread_bytes:
            self._watch()
        else:
            self._drop(
                f"it has neither read nor sent anything for {self._stall_s:g} s, and {self.unread_bytes} bytes of "
                "replies wait for it"
            )

    def resume(self) -> None:
        """The client has read most of its replies."""
        self.stalled = False
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
