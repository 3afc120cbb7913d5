"""The pieces of a reply are the whole reply, and each of them is small."""

from __future__ import annotations

from typing import Final

import pytest

from log_tier.model.errors import ConditionFailed, DuramenError, TableNotFound
from log_tier.model.identifiers import Offset
from router.data.requests import ReadResult, WriteOutcome, WriteResult
from router.proto import keyvalue_pb2 as kv
from router.remote import messages
from router.remote.reply_pieces import PIECE_ITEMS, read_reply_pieces, write_reply_pieces

PIECE_BYTES_MAX: Final = 256 * 1024


def written(outcomes: int) -> WriteResult:
    rejected = ConditionFailed("the condition did not hold: the key is absent", offset=7, actual=-1)
    return WriteResult(
        Offset(70), 1_700_000_000_000, [WriteOutcome(number, rejected, None, Offset(-1)) for number in range(outcomes)]
    )


@pytest.mark.parametrize(
    "outcomes",
    [
        [],
        [0, 1, 0],
        [PIECE_ITEMS],
        [PIECE_ITEMS + 1],
        [0, 20 * PIECE_ITEMS, 0, 3, 2 * PIECE_ITEMS + 7],
        [1] * (3 * PIECE_ITEMS),
        [PIECE_ITEMS - 1] * 5,
    ],
)
def test_a_write_reply(outcomes: list[int]) -> None:
    results: list[WriteResult | DuramenError] = [TableNotFound("no such table"), *map(written, outcomes)]
    pieces = list(write_reply_pieces(results))
    assert kv.WriteReply.FromString(b"".join(pieces)) == messages.write_reply(results)
    assert max(map(len, pieces)) <= PIECE_BYTES_MAX


def test_a_read_reply() -> None:
    found = ReadResult(Offset(3), [b"v", None], [3, -1], None)
    results: list[ReadResult | DuramenError] = [found, TableNotFound("no such table" * 10)] * (2 * PIECE_ITEMS + 1)
    pieces = list(read_reply_pieces(results))
    assert kv.ReadReply.FromString(b"".join(pieces)) == messages.read_reply(results)
    assert max(map(len, pieces)) <= PIECE_BYTES_MAX
