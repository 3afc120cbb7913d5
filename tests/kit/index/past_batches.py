"""Batches of changes of a few keys, of every kind, with expiries and groups."""

from __future__ import annotations

from random import Random
from typing import Any

from kit.log.stored_log import Said, StoredLog, delete, noop, put
from log_tier.model.record import Condition, Expiry, Operation

__all__ = ["KEYS", "random_batches"]

KEYS = [b"a", b"aa", b"a\x00", b"b", b"k" * 511]


def random_said(random: Random, *, grouped: bool) -> Said:
    key = random.choice(KEYS)
    condition = random.choice([Condition.NONE, Condition.NONE, Condition.ABSENT, Condition.PRESENT])
    how: dict[str, Any] = {"condition": condition, "grouped": grouped}
    chance = random.random()
    if chance < 0.2:
        return delete(key, **how)
    if chance < 0.3:
        return Said(Operation.ADD, key, b"1", **how)
    if chance < 0.35:
        return noop()
    expiry = random.choice([Expiry.NONE, Expiry.NONE, Expiry.TTL, Expiry.KEEP])
    return put(key, b"%d" % random.randrange(99), expiry=expiry, expiry_ms=25 if expiry is Expiry.TTL else 0, **how)


def random_batches(random: Random, count: int) -> list[bytes]:
    log, made = StoredLog(), []
    for number in range(count):
        if random.random() < 0.3:
            made.append(log.append(*[put(random.choice(KEYS), b"p%d" % number) for _ in range(3)], later_ms=3))
            continue
        said = [random_said(random, grouped=bool(each and random.random() < 0.3)) for each in range(3)]
        made.append(log.append(*said, later_ms=random.randrange(20)))
    return made
