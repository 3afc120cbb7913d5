"""What draws at random in a process draws from the seed."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["seeded"]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Whatever draws at random in this process draws from the seed."""
    chance = random.Random(f"secrets {seed}")
    real = secrets.randbits, secrets.token_hex
    random.seed(seed)
    secrets.randbits = chance.getrandbits  # type: ignore[assignment]
    secrets.token_hex = lambda nbytes=None: chance.randbytes(nbytes or 32).hex()
    try:
        yield
    finally:
        secrets.randbits, secrets.token_hex = real
