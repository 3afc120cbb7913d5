"""What the journal stores never has many zeros in a row, and comes back as it was."""

from __future__ import annotations

import random
from typing import Any

import pytest

from log_tier.embedded.commit.journal import JOURNAL_COMMIT_BYTES_MAX
from log_tier.embedded.commit.journal_room import PROBE_BYTES, UNUSED, lost_at, restored, unused_room, without_zeros

RUN = bytes(40)

PAYLOADS = {
    "empty": b"",
    "zeros": bytes(1000),
    "an odd number": bytes(1001),
    "at the end": b"x" * 77 + RUN,
    "at the beginning": RUN + b"x" * 77,
    "the largest": bytes(JOURNAL_COMMIT_BYTES_MAX),
    "every byte in turn": b"".join(bytes([byte]) * 40 for byte in range(256)),
    "keys, from either of their bytes on": RUN + b"".join(bytes((a, b)) * 30 for a in range(50) for b in range(50)),
}


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_run_is_left_and_the_payload_comes_back(name: str) -> None:
    payload = PAYLOADS[name]
    key, stored = without_zeros(payload)
    assert (key == 0) == (RUN not in payload)
    assert RUN not in stored
    assert restored(stored, key) == payload


def test_there_is_always_a_key() -> None:
    """Also for a payload with the runs of as many keys as it has room for."""
    first = 0xA55A
    runs = b"".join((first + number).to_bytes(2, "little") * 20 for number in range(JOURNAL_COMMIT_BYTES_MAX // 40))
    key, stored = without_zeros(RUN + runs)
    assert key
    assert RUN not in stored
    assert restored(stored, key) == RUN + runs


class Searched(bytes):
    """Bytes that count how often they were searched."""

    searches = 0

    def __contains__(self, part: Any) -> bool:
        self.searches += 1
        return super().__contains__(part)


@pytest.mark.parametrize("first", [1, 0xA55A])
def test_runs_of_the_keys_that_may_come_first_cost_few_searches(first: int) -> None:
    """Commits of all wait while one is stored: the runs of one value must not make that long."""
    runs = b"".join((first + number).to_bytes(2, "little") * 20 for number in range(JOURNAL_COMMIT_BYTES_MAX // 40))
    payload = Searched(RUN + runs)
    key, _ = without_zeros(payload)
    assert key
    assert payload.searches <= 40, "a third's chance for each of 20 keys"


def test_39_zeros_are_stored_as_they_are() -> None:
    payload = b"a" + RUN[1:] + b"b"
    assert without_zeros(payload) == (0, payload)


@pytest.mark.parametrize("seed", range(20))
def test_old_sectors_and_new_ones_never_make_what_a_loss_leaves(seed: int) -> None:
    """A torn frame is any mixture of the sectors that were there and of those that were written."""
    chance = random.Random(seed)

    def content() -> bytes:
        pieces = [bytes(chance.randrange(600)) + chance.randbytes(chance.randrange(30)) for _ in range(40)]
        return without_zeros(b"".join(pieces))[1].ljust(16384, b"x")[:16384]

    old, new = content(), content()
    for _ in range(50):
        mixed = b"".join(chance.choice((old, new))[at : at + 512] for at in range(0, len(old), 512))
        assert lost_at(mixed, 0, len(mixed)) is None
        place = chance.randrange(len(mixed) - PROBE_BYTES)
        lost = mixed[:place] + bytes(PROBE_BYTES) + mixed[place + PROBE_BYTES :]
        found = lost_at(lost, 0, len(lost))
        assert found is not None
        assert place - 40 < found <= place


def test_unused_room_is_no_frame_and_no_zeros() -> None:
    room = unused_room(100)
    assert room == (UNUSED * 7)[:100]
    assert lost_at(room, 0, 100) is None
    assert b"DuJf" not in room
    assert not unused_room(0)
