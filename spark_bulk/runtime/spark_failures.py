"""What failed in Spark, as the error that it was.

Spark gives back a failure of Python code as text: the traceback, whose last line names the class. Our errors are found
there and made anew, with Spark's as the cause (`named_failures`). What is none of ours is Spark's own: a program gets
it as it is, and the command line as one sentence (`one_line_failures`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from log_tier.model.errors import ERRORS, DuramenError, InvalidRequest

__all__ = ["named_failures", "one_line_failures"]

_CLASSES: Final = {kind.__name__: kind for kind in ERRORS.values()}

_LINE: Final = re.compile(r"^(?:Caused by: )?log_tier\.model\.errors\.(\w+): (.*)$", re.MULTILINE)

# An error that Spark has a name for: mostly about what it was given. Behind it come a plan, a query or a stack.
_NAMED: Final = re.compile(r"\[([A-Z][A-Z0-9_.]+)\] (.+?)(?:\s*SQLSTATE: \w+|\n\s*\n|\n\tat |\Z)", re.DOTALL)


@contextmanager
def named_failures() -> Iterator[None]:
    """Turn a failure of Spark's that was an error of ours in a task into that error; others pass."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _LINE.findall(str(error))
        kind = _CLASSES.get(found[-1][0]) if found else None
        if kind is None:
            raise
        raise _of_task(kind, found[-1][1]) from error


@contextmanager
def one_line_failures() -> Iterator[None]:
    """`named_failures`; and Spark's own failures as `InvalidRequest` if it names them, else as `DuramenError`."""
    try:
        with named_failures():
            yield
    except (PySparkException, Py4JJavaError) as error:
        text = str(error)
        found = _NAMED.search(text)
        if found is not None:
            raise InvalidRequest(f"Spark says: {' '.join(found[2].split())} ({found[1]})") from error
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        first = next((line for line in lines if not line.startswith("An error occurred while calling")), "no reason")
        raise DuramenError(f"Spark failed: {first.removeprefix(': ')}; its log tells more") from error


def _of_task(kind: type[DuramenError], message: str) -> DuramenError:
    return kind(f"{message} (in a task of Spark's, whose log tells more)")
