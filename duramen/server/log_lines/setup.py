"""The level and the format of what this process logs."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Final

__all__ = ["LogFormat", "log_format", "log_level", "set_up_logging"]

_PLAIN: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LogFormat(StrEnum):
    """How a line looks."""

    PLAIN = "plain"
    JSON = "json"


def set_up_logging(level: str, form: str) -> None:
    """Log what has `level` (debug, info, warning, error; upper case too) or more on the standard error.

    The first call of a process counts, as with `logging.basicConfig`: a program that embeds a server keeps its own.
    With JSON, what Python itself would write there (`uncaught.py`) is logged too.
    """
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler()
    if LogFormat(form) is LogFormat.JSON:
        from duramen.server.log_lines.json_lines import JsonLines
        from duramen.server.log_lines.uncaught import log_uncaught

        handler.setFormatter(JsonLines())
        log_uncaught()
    else:
        handler.setFormatter(logging.Formatter(_PLAIN))
    logging.basicConfig(level=level.upper(), handlers=[handler])


def log_level() -> str:
    """The level of this process, for a child that shall log alike."""
    return logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()


def log_format() -> LogFormat:
    """The format of this process, for a child that shall log alike."""
    from duramen.server.log_lines.json_lines import JsonLines

    handlers = logging.getLogger().handlers
    return LogFormat.JSON if any(isinstance(one.formatter, JsonLines) for one in handlers) else LogFormat.PLAIN
