"""What failed in a Spark task, as the error that it was.

Spark gives back a failure of Python code as text: the traceback, whose last line names the class. Our errors are found
there and made anew, with Spark's as the cause; what is none of ours stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from log_tier.errors import ERRORS, DuramenError

__all__ = ["named_failures"]

_CLASSES: Final = {kind.__name__: kind for kind in ERRORS.values()}

_LINE: Final = re.compile(r"^(?:Caused by: )?log_tier\.errors\.(\w+): (.*)$", re.MULTILINE)


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


def _of_task(kind: type[DuramenError], message: str) -> DuramenError:
    return kind(f"{message} (in a task of Spark's, whose log tells more)")
