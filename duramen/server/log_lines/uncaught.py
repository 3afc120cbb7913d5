"""What Python itself writes on the standard error, as log records: exceptions that nobody caught, and warnings.

Without this, a process that logs JSON has lines between them that are none.
"""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType

__all__ = ["log_uncaught"]

logger = logging.getLogger(__name__)


def log_uncaught() -> None:
    """From now on log exceptions that end the process or a thread, or that a destructor raises, and warnings."""
    sys.excepthook = _ended_process
    threading.excepthook = _ended_thread
    sys.unraisablehook = _not_raised
    logging.captureWarnings(capture=True)


def _ended_process(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):  # somebody sits at the terminal
        sys.__excepthook__(kind, error, trace)
        return
    logger.critical("the process ends: nobody caught %s", kind.__name__, exc_info=(kind, error, trace))


def _ended_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is None or issubclass(ended.exc_type, SystemExit):
        return
    name = "" if ended.thread is None else ended.thread.name
    caught = (ended.exc_type, ended.exc_value, ended.exc_traceback)
    logger.error("thread %s ended: nobody caught %s", name, ended.exc_type.__name__, exc_info=caught)


def _not_raised(failed: sys.UnraisableHookArgs) -> None:
    error = failed.exc_value
    caught = None if error is None else (failed.exc_type, error, failed.exc_traceback)
    kind = "an exception" if failed.exc_type is None else failed.exc_type.__name__
    what = failed.err_msg or "Exception ignored in"
    logger.error("%s %s: nobody could catch %s", what, _shown(failed.object), kind, exc_info=caught)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - an object half destroyed; what it raises must not end the report
        return f"a {type(value).__name__} that cannot be shown: {error!r}"
