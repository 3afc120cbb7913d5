"""The decorator @simulated: an asynchronous test in virtual time, under one seed or many."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable
from functools import wraps
from typing import Any, Final, ParamSpec, overload

from duramen.testing.running.run import LIMIT_S, run

__all__ = ["SEEDS_VARIABLE", "SEED_VARIABLE", "simulated"]

P = ParamSpec("P")

SEED_VARIABLE: Final = "DURAMEN_SEED"
"""One seed in place of a test's own: to repeat a failure. `pytest --duramen-seed 7` sets it."""
SEEDS_VARIABLE: Final = "DURAMEN_SEEDS"
"""How many seeds in place of a test's own number: more of them at night. `pytest --duramen-seeds 500` sets it."""

AsyncTest = Callable[P, Coroutine[Any, Any, None]]


@overload
def simulated(test: AsyncTest[P]) -> Callable[P, None]: ...
@overload
def simulated(
    *, seed: int = 0, seeds: int | Iterable[int] | None = None, limit_s: float = LIMIT_S
) -> Callable[[AsyncTest[P]], Callable[P, None]]: ...
def simulated(
    test: AsyncTest[P] | None = None,
    *,
    seed: int = 0,
    seeds: int | Iterable[int] | None = None,
    limit_s: float = LIMIT_S,
) -> Any:
    """Make a plain function of an asynchronous test: it runs in virtual time, as `run` does it, once for each seed.

    `@simulated`, `@simulated(seed=7)`, `@simulated(seeds=20)` for seeds 0 to 19, `@simulated(seeds=(3, 8))`. Fixtures
    work as in any other test; they are made once, for all seeds. A failure names its seed and how to repeat it.
    """

    def decorate(test: AsyncTest[P]) -> Callable[P, None]:
        if not inspect.iscoroutinefunction(test):
            raise TypeError(f"@simulated is for asynchronous tests; {getattr(test, '__name__', test)!r} is none")

        @wraps(test)
        def tested(*args: P.args, **named: P.kwargs) -> None:
            for each in _chosen(seed, seeds):
                try:
                    run(lambda: test(*args, **named), seed=each, limit_s=limit_s)
                except Exception as error:
                    error.add_note(f"again, with this seed alone: {SEED_VARIABLE}={each}, or --duramen-seed {each}")
                    raise

        return tested

    return decorate if test is None else decorate(test)


def _chosen(seed: int, seeds: int | Iterable[int] | None) -> Iterable[int]:
    """The seeds of a test, or those that the environment asks for."""
    one = os.environ.get(SEED_VARIABLE)
    if one:
        return (_whole(SEED_VARIABLE, one),)
    many = os.environ.get(SEEDS_VARIABLE)
    if many and seeds is not None:
        return range(_whole(SEEDS_VARIABLE, many))
    if seeds is None:
        return (seed,)
    return range(seeds) if isinstance(seeds, int) else tuple(seeds)


def _whole(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}: give a whole number") from None
