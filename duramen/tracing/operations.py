"""The seam of the client: its operations, each one call of a program."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

__all__ = ["ClientOperation", "Operations", "observed", "observed_blocking", "observed_pages"]

P = ParamSpec("P")
T = TypeVar("T")


class ClientOperation(Protocol):
    """One call of a program. `with` covers one that is done at once; one in steps has `inside` and `finish`."""

    def __enter__(self) -> ClientOperation: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object, /) -> None: ...

    def counted(self, records: int) -> None:
        """The operation wrote so many records."""
        ...

    def returned(self, rows: int) -> None:
        """The operation has read so many keys that are there."""
        ...

    def came_of(self, origins: Sequence[object]) -> None:
        """Before it begins: what was going on in the program, of `Operations.current`, when its records were put."""
        ...

    def inside(self) -> AbstractContextManager[None]:
        """Requests that begin inside are this operation's."""
        ...

    def finish(self, error: BaseException | None) -> None:
        """The operation is over; `error`: why it failed."""
        ...


class Operations(Protocol):
    """The operations of one client."""

    def skips(self) -> bool:
        """Is this call none, as most are where a share of the calls is traced? False: ask `begin`."""
        ...

    def current(self) -> object | None:
        """The span that is current in the program, if it is recorded."""
        ...

    def begin(self, name: str, table: str) -> ClientOperation | None:
        """An operation of that name on a table, which begins when it is entered; None: this call is none either."""
        ...


def _nothing(_operation: ClientOperation, _result: Any) -> None:
    """What most results say of their operation."""


def observed(
    name: str,
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
    note: Callable[[ClientOperation, T], None] = _nothing,
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same method of an object with `operations` and a `name`, as an operation. `note`: what its result says."""

    # Called in the operation: a task that is cancelled before its first step would leave a coroutine.
    async def as_operation(operation: ClientOperation, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        with operation:
            result = await call()
            note(operation, result)
            return result

    @wraps(method)
    def operation_of(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        operation: ClientOperation | None = None
        if not self.operations.skips():
            operation = self.operations.begin(name, self.name)
        if operation is None:
            return method(self, *args, **kwargs)
        return as_operation(operation, partial(method, self, *args, **kwargs))

    return operation_of


def observed_blocking(
    name: str, method: Callable[Concatenate[Any, P], T], note: Callable[[ClientOperation, T], None] = _nothing
) -> Callable[Concatenate[Any, P], T]:
    """`observed` for a method that blocks."""

    @wraps(method)
    def operation_of(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if self.operations.skips() or (begun := self.operations.begin(name, self.name)) is None:
            return method(self, *args, **kwargs)
        with begun as operation:
            result = method(self, *args, **kwargs)
            note(operation, result)
            return result

    return operation_of


def observed_pages(
    operation: ClientOperation | None, pages: AsyncGenerator[list[T], None]
) -> AsyncGenerator[list[T], None]:
    """The pages of a scan; as one operation, where there is one."""
    return pages if operation is None else _observed_pages(operation, pages)


async def _observed_pages(
    operation: ClientOperation, pages: AsyncGenerator[list[T], None]
) -> AsyncGenerator[list[T], None]:
    """The pages of a scan, which is one operation from its first page to its end.

    Between two pages the program runs in the same context, and what it does then is no part of the scan.
    """
    records = 0
    failure: BaseException | None = None
    try:
        while True:
            with operation.inside():
                page = await anext(pages, None)
            if page is None:
                return
            records += len(page)
            yield page
    except GeneratorExit:
        raise  # the program has seen enough
    except BaseException as error:
        failure = error
        raise
    finally:
        operation.returned(records)
        operation.finish(failure)
        await pages.aclose()
