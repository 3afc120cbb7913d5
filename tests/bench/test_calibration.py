"""How a number of requests is found for a length of time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.calibration import FIRST_REQUESTS, TRUSTED_SECONDS, calibrated


class _Server:
    """Answers at a steady rate, after `connecting` seconds; counts how long it was kept."""

    def __init__(self, per_second: float, *, connecting: float = 0.0) -> None:
        self._per_second, self._connecting = per_second, connecting
        self.asked: list[int] = []
        self.kept_seconds = 0.0

    async def rate(self, requests: int) -> float:
        self.asked.append(requests)
        took = self._connecting + requests / self._per_second
        self.kept_seconds += took
        return requests / took


async def test_a_steady_server_is_asked_a_few_times() -> None:
    server = _Server(100_000)
    assert await calibrated(server.rate, seconds=4) == 400_000
    assert server.asked[0] == FIRST_REQUESTS
    assert len(server.asked) <= 4


async def test_a_slow_server_is_not_kept() -> None:
    server = _Server(50)
    assert await calibrated(server.rate, seconds=4) == 200
    assert server.asked == [FIRST_REQUESTS]


async def test_a_first_guess_that_was_too_slow_is_made_again() -> None:
    server = _Server(1_000_000, connecting=0.05)
    # The first run, of a millisecond, looks fifty times slower than the server is.
    assert await calibrated(server.rate, seconds=4) == pytest.approx(4_000_000, rel=0.15)


@given(per_second=st.floats(1, 1e8), seconds=st.floats(0.01, 60), connecting=st.floats(0, 0.02))
async def test_the_number_takes_about_the_seconds(per_second: float, seconds: float, connecting: float) -> None:
    server = _Server(per_second, connecting=connecting)
    requests = await calibrated(server.rate, seconds=seconds)
    assert requests >= 1
    trusted = min(TRUSTED_SECONDS, seconds)
    # Connecting is a part of the last run; the rest of what it says is true.
    share = max(0.0, 1 - connecting / trusted)
    assert per_second * seconds * share - 1 <= requests <= per_second * seconds + 1
    # However fast or slow it is, it is not asked for much more than it takes to know.
    assert server.kept_seconds <= FIRST_REQUESTS / per_second + 20 * (trusted + connecting) + 1


async def test_a_rate_that_means_nothing_is_refused() -> None:
    async def nothing(requests: int) -> float:
        return 0.0

    async def ever_faster(requests: int) -> float:
        return requests * 1e6

    with pytest.raises(ValueError, match="1000 requests went at 0"):
        await calibrated(nothing, seconds=4)
    with pytest.raises(ValueError, match=r"was still shorter than 0\.5 s"):
        await calibrated(ever_faster, seconds=4)
