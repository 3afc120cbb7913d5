"""Which replies a thread encodes."""

from __future__ import annotations

from typing import Any

import pytest

from router.endpoints.resp.wire.limits import AT_ONCE_BYTES_MAX, AT_ONCE_KEYS_MAX
from router.endpoints.resp.wire.replies import Members, is_large, size_of

MANY = AT_ONCE_BYTES_MAX // 4 // 1024


@pytest.mark.parametrize("kind", [list, tuple, Members])
def test_lists_in_a_list(kind: Any) -> None:
    assert is_large([kind([1] * MANY), kind([1])])
    assert not is_large([kind([1] * 10)] * 10)


def test_maps_in_a_list() -> None:
    assert is_large([dict.fromkeys(range(MANY)), {1: 1}])
    assert size_of([{b"k" * 1000: b"v" * 1000}]) >= 2000


def test_many_values_and_large_ones() -> None:
    assert is_large([None] * (AT_ONCE_KEYS_MAX + 1))
    assert is_large([b"x" * AT_ONCE_BYTES_MAX])
    assert not is_large([b"x"] * AT_ONCE_KEYS_MAX)
    assert not is_large(b"x" * AT_ONCE_BYTES_MAX), "it is one copy"
