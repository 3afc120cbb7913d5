"""What a judge remembers changes no answer."""

from __future__ import annotations

from random import Random

import pytest

from log_tier.rows import judge as judge_module
from log_tier.rows.definition import TableDefinition
from log_tier.rows.framing import frame
from log_tier.rows.schema import NumberedSchema, RowSchema


def of_one(type_: str, number: int = 7) -> TableDefinition:
    schema = RowSchema.parse({"type": "record", "name": "R", "fields": [{"name": "f", "type": type_}]})
    return TableDefinition(1, "bytes", "row", (NumberedSchema(number, schema),))


def test_equal_definitions_have_one_judge_and_others_their_own() -> None:
    assert of_one("string").judge is of_one("string").judge
    assert of_one("string").judge is not of_one("bytes").judge
    value = frame(7, b"\x02\xff")
    assert of_one("bytes").judge.fit([b"k"], [value])
    assert not of_one("string").judge.fit([b"k"], [value])
    assert not of_one("bytes", number=8).judge.fit([b"k"], [value])


def test_a_batch_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    judge, read = of_one("long", number=11).judge, 0
    key_of_row = judge.key_of_row

    def counted(value: bytes) -> bytes:
        nonlocal read
        read += 1
        return key_of_row(value)

    monkeypatch.setattr(judge, "key_of_row", counted)
    keys, values = [b"a", b"b"], [frame(11, b"\0"), frame(11, b"\x02")]
    assert judge.fit(keys, values)
    assert judge.fit(tuple(bytes(bytearray(key)) for key in keys), list(values)), "as another list, of equal bytes"
    assert read == 2
    assert not judge.fit(keys, [values[0], frame(11, b"")])
    assert read == 4


def test_more_batches_than_are_remembered_get_the_same_answers() -> None:
    random, judge = Random(5), of_one("string", number=12).judge
    batches = [([b"k%d" % number], [frame(12, random.randbytes(2))]) for number in range(1000)]
    first = [judge.fit(*batch) for batch in batches]
    assert 0 < sum(first) < len(first), "some of each"
    assert [judge.fit(*batch) for batch in batches] == first
    remembered = judge_module._fit_lately.cache_info()
    assert remembered.maxsize is not None
    assert remembered.currsize <= remembered.maxsize


def test_a_large_batch_is_not_kept() -> None:
    judge = of_one("string", number=13).judge
    before = judge_module._fit_lately.cache_info().misses
    text = b"x" * 63
    assert judge.fit([b"k"] * 3000, [frame(13, bytes((2 * len(text),)) + text)] * 3000)
    assert judge_module._fit_lately.cache_info().misses == before
