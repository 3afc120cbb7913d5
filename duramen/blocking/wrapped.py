"""From an asynchronous method to its blocking form."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

__all__ = ["chained", "wrapped"]

P = ParamSpec("P")
T = TypeVar("T")


def wrapped(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Any, P], T]:
    """The blocking form of an asynchronous method: same arguments, same result, same documentation."""

    @wraps(method)
    def blocking(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._loop.run(partial(method, self._inner, *args, **kwargs))  # type: ignore[no-any-return]

    return blocking


def chained(method: Callable[Concatenate[Any, P], Any]) -> Callable[Concatenate[Any, P], Any]:
    """The blocking form of a method that waits for nothing and returns its object, so that calls can be chained."""

    @wraps(method)
    def chaining(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        method(self._inner, *args, **kwargs)
        return self

    return chaining
