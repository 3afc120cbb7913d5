"""@simulated: one test, one seed or many."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from duramen.testing.running.simulated import simulated


@simulated
async def test_it_runs_in_virtual_time() -> None:
    await asyncio.sleep(1000)
    assert asyncio.get_running_loop().time() >= 1000


@simulated(seed=4)
async def test_fixtures_are_given(tmp_path: object, request: pytest.FixtureRequest) -> None:
    assert tmp_path is not None
    assert request.function.__name__ == "test_fixtures_are_given"


def _seeds(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], **asked: Any) -> list[float]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    drawn: list[float] = []

    @simulated(**asked)
    async def draws() -> None:
        drawn.append(random.random())

    draws()
    return drawn


def _first(seed: int) -> float:
    return random.Random(seed).random()


@pytest.mark.parametrize(
    ("environment", "asked", "wanted"),
    [
        ({}, {}, [0]),
        ({}, {"seed": 5}, [5]),
        ({}, {"seeds": 3}, [0, 1, 2]),
        ({}, {"seeds": (8, 3)}, [8, 3]),
        ({"DURAMEN_SEED": "9"}, {"seeds": 3}, [9]),
        ({"DURAMEN_SEED": "9"}, {}, [9]),
        ({"DURAMEN_SEEDS": "5"}, {"seeds": 2}, [0, 1, 2, 3, 4]),
        ({"DURAMEN_SEEDS": "5"}, {"seed": 2}, [2]),
    ],
)
def test_the_seeds(
    environment: dict[str, str], asked: dict[str, Any], wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _seeds(monkeypatch, environment, **asked) == [_first(seed) for seed in wanted]


def test_a_seed_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="DURAMEN_SEED is 'x'"):
        _seeds(monkeypatch, {"DURAMEN_SEED": "x"})


def test_the_first_seed_that_fails_is_named() -> None:
    tried: list[int] = []

    @simulated(seeds=5)
    async def fails_at_the_third() -> None:
        tried.append(len(tried))
        assert len(tried) < 3

    with pytest.raises(AssertionError) as failed:
        fails_at_the_third()
    assert failed.value.__notes__ == [
        "in virtual time, seed 2",
        "again, with this seed alone: DURAMEN_SEED=2, or --duramen-seed 2",
    ]
    assert tried == [0, 1, 2]


def test_only_an_asynchronous_test_is_taken() -> None:
    def plain() -> None: ...

    given: Any = plain
    with pytest.raises(TypeError, match="'plain' is none"):
        simulated(given)
