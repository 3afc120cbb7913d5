"""What a table keeps of the past, in the words of its callers."""

from __future__ import annotations

import pytest

from log_tier.model.errors import InvalidRequest
from log_tier.model.kept_history import ALL, KEPT_VERSIONS_MAX, KeptHistory


@pytest.mark.parametrize(
    ("given", "kept", "shown"),
    [
        ("all", ALL, "all"),
        (100, KeptHistory(versions=100), "100"),
        ("100", KeptHistory(versions=100), "100"),
        ("30d", KeptHistory(age_ms=30 * 86_400_000), "30d"),
        ("14d", KeptHistory(age_ms=14 * 86_400_000), "2w"),
        ("90s", KeptHistory(age_ms=90_000), "90s"),
        ("24h", KeptHistory(age_ms=86_400_000), "1d"),
        ("60ms", KeptHistory(age_ms=60), "60ms"),
        ("5m", KeptHistory(age_ms=300_000), "5m"),
    ],
)
def test_words(given: object, kept: KeptHistory, shown: str) -> None:
    assert KeptHistory.of(given) == kept
    assert str(kept) == shown
    assert KeptHistory.of(shown) == kept
    assert KeptHistory.from_listed(kept.listed()) == kept


@pytest.mark.parametrize("given", ["", "0d", "0", 0, -1, True, 1.5, "30 d", "30D", "d", "1y", None, "9999999w", 10**7])
def test_what_is_none_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest):
        KeptHistory.of(given)


def test_bounds() -> None:
    assert KeptHistory(versions=KEPT_VERSIONS_MAX).versions == KEPT_VERSIONS_MAX
    for wrong in ({"versions": KEPT_VERSIONS_MAX + 1}, {"age_ms": -1}, {"versions": 1, "age_ms": 1}):
        with pytest.raises(InvalidRequest):
            KeptHistory(**wrong)
