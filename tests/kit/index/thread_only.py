"""No work for the event loop: a test that holds up a fold would hold up the loop with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from serving_tier.replica import apply

__all__ = ["thread_only"]


@contextmanager
def thread_only() -> Iterator[None]:
    """Inside, every chunk is applied by the applier's thread, however small it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(apply, "SMALL_BYTES_MAX", -1)
        yield
