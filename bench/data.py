"""The bytes that every side gets: the same keys and values, from one seed, made before any clock starts."""

from __future__ import annotations

import random
from itertools import islice
from typing import Final, TypeVar

__all__ = ["KEY_BYTES", "PRELOADED_KEYS", "VALUE_BYTES", "chunks", "make_numbered_pairs", "make_pairs"]

T = TypeVar("T")

KEY_BYTES: Final = 16
VALUE_BYTES: Final = 100

PRELOADED_KEYS: Final = 100_000
"""What a get workload reads from: more than the processor's caches hold, and loaded in seconds by the slowest peer."""

_VALUES: Final = 4096
"""Distinct values; keys take them in turn. Enough that no store can profit from repetition within a block."""


def make_pairs(count: int, *, seed: int = 1) -> list[tuple[bytes, bytes]]:
    """`count` pairs in random key order; about 0.3 µs each.

    Keys are 16 hexadecimal digits of 64 random bits: printable, because NATS' key-value buckets allow nothing else, and
    distinct but for odds of count² / 2^65. Values are random bytes, so that no side wins by compressing them.
    """
    rng = random.Random(seed)
    digits = rng.randbytes(count * KEY_BYTES // 2).hex().encode()
    values = _make_values(rng)
    return [(digits[i * KEY_BYTES : (i + 1) * KEY_BYTES], values[i % _VALUES]) for i in range(count)]


def make_numbered_pairs(count: int, *, seed: int = 1) -> list[tuple[bytes, bytes]]:
    """`count` pairs in random key order, under the keys that `redis-benchmark -r count` asks for; about 1 µs each.

    Those are `key:000000000000` up to the number before `count`: 16 bytes, too. Values are as in `make_pairs`.
    """
    rng = random.Random(seed)
    numbers = list(range(count))
    rng.shuffle(numbers)
    values = _make_values(rng)
    return [(b"key:%012d" % number, values[i % _VALUES]) for i, number in enumerate(numbers)]


def _make_values(rng: random.Random) -> list[bytes]:
    return [rng.randbytes(VALUE_BYTES) for _ in range(_VALUES)]


def chunks(items: list[T], size: int) -> list[list[T]]:
    """`items` cut into lists of `size`, the last one shorter where it does not divide."""
    rest = iter(items)
    return [chunk for _ in range(0, len(items), size) if (chunk := list(islice(rest, size)))]
