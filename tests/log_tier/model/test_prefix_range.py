from __future__ import annotations

import doctest

from hypothesis import given
from hypothesis import strategies as st

from log_tier.model import prefix_range as module
from log_tier.model.prefix_range import prefix_range


def test_the_examples_in_the_text() -> None:
    result = doctest.testmod(module)
    assert (result.failed, result.attempted) == (0, 1)


@given(prefix=st.binary(max_size=4), key=st.one_of(st.binary(max_size=6), st.just(b"\xff" * 6)))
def test_a_prefixs_range_holds_the_keys_that_begin_with_it_and_no_others(prefix: bytes, key: bytes) -> None:
    start, end = prefix_range(prefix)
    assert (start <= key and (end is None or key < end)) == key.startswith(prefix)
