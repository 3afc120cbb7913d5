"""What JSON of rows, keys, patches and conditions may not have."""

from __future__ import annotations

import pytest

from log_tier.rows.json_rows.strict_json import strict_json


def test_what_it_says() -> None:
    assert strict_json('{"a": [1, -0.5, null, true, "\\u00fc"]}') == {"a": [1, -0.5, None, True, "ü"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": {"b": 1, "b": 2}}', "an object has a name twice"),
        ("[NaN]", 'NaN is no number of JSON: write "NaN"'),
        ("-Infinity", '-Infinity is no number of JSON: write "-Infinity"'),
        ("[" * 100_000, "it is nested too deep"),
        ("", "Expecting value"),
        ("1 2", "Extra data"),
    ],
)
def test_what_is_wrong_is_said(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        strict_json(text)
