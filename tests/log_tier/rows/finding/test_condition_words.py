"""Conditions of JSON, and what is said of those that are none."""

from __future__ import annotations

import json

import pytest
from kit.flight_rows import FLIGHTS

from log_tier.model.errors import InvalidRequest
from log_tier.rows.finding.condition_words import conditions_of_json, conditions_of_words
from log_tier.rows.finding.conditions import conditions_of


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"carrier":"UA","dep_delay":[60,null]}', ["carrier=UA", "dep_delay=60.."]),
        ('{"tailnum":null,"flight":[null,9]}', ["tailnum", "flight=..9"]),
        ("{}", []),
    ],
)
def test_json_is_what_a_person_writes(text: str, words: list[str]) -> None:
    of_json = conditions_of(conditions_of_json(json.loads(text), FLIGHTS), FLIGHTS)
    assert of_json == conditions_of(conditions_of_words(words, FLIGHTS), FLIGHTS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"carrier":7}', "the condition on carrier: it is 7, expected a text or null"),
        ('{"flight":"x"}', 'the condition on flight: it is "x", expected a whole number or null'),
        ('{"carrier":"\\ud800"}', "the condition on carrier: the field '\\ud800' of a key is no text: "),
        ('{"carrier":["a"]}', "a range of carrier is (start, end), with None for an open end, not ('a',)"),
        ('{"gate":1}', "no row is found by 'gate': "),
    ],
)
def test_what_is_none_is_refused_in_a_sentence(text: str, said: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        conditions_of(conditions_of_json(json.loads(text), FLIGHTS), FLIGHTS)
    assert refused.value.message.startswith(said)
