"""Large replies as bytes, serialized some results at a time, for a thread.

The serializer is one call that lets no other thread run: some 20 ms for what is about 50,000 rejected records. The
bytes of a repeated field are those of its elements one after the other, so those of the pieces are those of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from log_tier.model.errors import DuramenError
from router.data.requests import ReadResult, WriteResult
from router.proto import keyvalue_pb2 as kv
from router.remote import messages

__all__ = ["PIECE_ITEMS", "read_reply_pieces", "write_reply_pieces"]

PIECE_ITEMS: Final = 500
"""Results or outcomes of a piece: some 0.4 ms."""

_BYTES: Final = 2
_RESULT: Final = bytes([kv.WriteReply.RESULTS_FIELD_NUMBER << 3 | _BYTES])


def read_reply_pieces(results: Sequence[ReadResult | DuramenError]) -> Iterator[bytes]:
    """The bytes of `messages.read_reply`."""
    for at in range(0, len(results), PIECE_ITEMS):
        yield messages.read_reply(results[at : at + PIECE_ITEMS]).SerializeToString()


def write_reply_pieces(results: Sequence[WriteResult | DuramenError]) -> Iterator[bytes]:
    """The bytes of a `messages.write_reply` that means the same."""
    some: list[WriteResult | DuramenError] = []
    items = 0
    for result in results:
        count = len(result.outcomes) if isinstance(result, WriteResult) else 0
        if some and items + count >= PIECE_ITEMS:
            yield messages.write_reply(some).SerializeToString()
            some, items = [], 0
        if count > PIECE_ITEMS:
            assert isinstance(result, WriteResult), f"{result!r} has no outcomes"
            yield from _result_pieces(result)
        else:
            some.append(result)
            items += 1 + count
    yield messages.write_reply(some).SerializeToString()


def _result_pieces(result: WriteResult) -> Iterator[bytes]:
    """One result of many outcomes, in its frame. Each piece is the result with some of them: of a field that comes more
    than once, a parser takes the last, or all where it is repeated.
    """
    pieces: list[bytes] = []
    for at in range(0, len(result.outcomes), PIECE_ITEMS):
        message = messages.write_reply([result._replace(outcomes=result.outcomes[at : at + PIECE_ITEMS])]).results[0]
        pieces.append(message.SerializeToString())
    yield _RESULT + _varint(sum(map(len, pieces)))
    yield from pieces


def _varint(number: int) -> bytes:
    """A number as the wire has it."""
    written = bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    written.append(number)
    return bytes(written)
