"""What an encoded batch demands, record by record; whether one grant covers it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.access.demands import AllDemands, BatchDemand, KeyDemand
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import BatchRefused, DuramenError
from log_tier.model.record import PLAIN_PUT, READ_CHANGES, Condition, Expiry, Operation, attribute_of
from log_tier.trust.grants import Grant, Right
from log_tier.trust.rights import Rights

KEYS = (b"eu:1", b"eu:2", b"us:1")


def rights(*grants: str) -> Rights:
    return Rights([Grant.parse(grant) for grant in grants])


def batch(*attributes: int, keys: tuple[bytes, ...] = KEYS, compress: bool = False) -> bytes:
    count = len(attributes) or len(keys)
    columns = Columns(keys[:count], (b"1",) * count, attributes or None, (0,) * count if attributes else None)
    return encode_batch(columns, compress=compress)


def lacks(encoded: bytes, *grants: str) -> str:
    return BatchDemand("orders", encoded).lacks(rights(*grants))


def test_plain_puts_need_write_on_every_key() -> None:
    assert lacks(batch(), "write orders") == ""
    assert lacks(batch(), "write orders --key eu:") == "write orders --key us:1"
    assert lacks(batch(), "write orders --key eu:", "write orders --key us:") == ""
    assert lacks(batch(), "read orders", "write ships") == "write orders --key eu:1"
    assert lacks(batch(compress=True), "write orders --key eu:") == "write orders --key us:1"


DELETE = attribute_of(Operation.DELETE)


@pytest.mark.parametrize("attribute", [PLAIN_PUT, DELETE, attribute_of(Operation.PUT, expiry=Expiry.KEEP)])
def test_what_tells_nothing_needs_no_read(attribute: int) -> None:
    assert lacks(batch(attribute, PLAIN_PUT), "write orders") == ""


TELLING = [
    *(attribute_of(operation) for operation in sorted(READ_CHANGES)),
    *(attribute_of(Operation.PUT, condition=condition) for condition in Condition if condition),
    attribute_of(Operation.DELETE, condition=Condition.PRESENT),
]


@pytest.mark.parametrize("attribute", TELLING)
def test_what_tells_of_the_value_needs_read_on_its_key(attribute: int) -> None:
    encoded = batch(PLAIN_PUT, attribute)
    assert lacks(encoded, "write orders") == "read orders --key eu:2"
    assert lacks(encoded, "write orders", "read orders --key eu:2") == ""
    assert lacks(encoded, "write orders", "read orders --key us:") == "read orders --key eu:2"
    assert lacks(encoded, "read,write orders") == ""


def test_a_barrier_is_for_servers() -> None:
    barrier = batch(int(Operation.BARRIER), keys=(b"",))
    with pytest.raises(BatchRefused, match="only the servers of a cluster"):
        lacks(barrier, "read,write,admin *")


@given(st.binary(max_size=200), st.integers(0, 63))
def test_damaged_batches_are_refused_and_never_let_in(damage: bytes, at: int) -> None:
    whole = batch(PLAIN_PUT, DELETE)
    damaged = whole[:at] + damage + whole[at + len(damage) :]
    try:
        missing = lacks(damaged, "write orders --key eu:1")
    except DuramenError:
        return
    assert missing != "" or damaged == whole, "a damaged batch passed"


def test_all_of_several_demands() -> None:
    both = AllDemands((KeyDemand(Right.READ, "orders", (b"a",)), KeyDemand(Right.READ, "ships", (b"a",))))
    assert both.lacks(rights("read orders")) == "read ships --key a"
    assert both.lacks(rights("read *")) == ""
    assert AllDemands(()).lacks(rights()) == ""
