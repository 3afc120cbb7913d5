"""Warnings about void records: each kind has its own words and its own pause, and none is left uncounted."""

from __future__ import annotations

import pytest

from log_tier.model.identifiers import Offset
from serving_tier.fold.misfits import FirstMisfit
from serving_tier.replica.void_warnings import VoidWarnings

WHY = FirstMisfit(Offset(7), "the field miles: a boolean is 0 or 1, not 2")


def test_each_kind_has_its_words_and_its_pause(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    voids = VoidWarnings("legs/3", 5, clock=lambda: now_s)
    voids.note(2, Offset(7), Offset(9), misfits=2, first_misfit=WHY)
    assert caplog.messages == [
        "legs/3: 2 of the records at offsets 7 to 9 do not fit the table's definition; the one at offset 7: the field "
        "miles: a boolean is 0 or 1, not 2. They are skipped, on every replica alike, 7 so far: have their writer send "
        "what the table's schema says, or write through Duramen, which refuses them"
    ]
    caplog.clear()
    voids.note(3, Offset(10), Offset(12), misfits=1, first_misfit=WHY)
    assert caplog.messages == [
        "legs/3: no table can hold 2 of the records at offsets 10 to 12, which others wrote; they are skipped, on "
        "every replica alike, 10 so far"
    ]
    caplog.clear()
    now_s = 104.9
    voids.note(4, Offset(13), Offset(20), misfits=4, first_misfit=WHY)
    voids.note(1, Offset(21), Offset(21))
    assert caplog.messages == []
    now_s = 105.0
    voids.note(1, Offset(22), Offset(22), misfits=1, first_misfit=WHY)
    assert [message[:70] for message in caplog.messages] == [
        "legs/3: 6 of the records at offsets 10 to 22 do not fit the table's de"
    ]
    assert voids.count == 16
