"""The parameter of fixtures that start a server with the Redis protocol: without reader processes, and with two."""

from __future__ import annotations

from typing import Final

import pytest

__all__ = ["NONE_AND_TWO"]

NONE_AND_TWO: Final = (
    pytest.param(0, id="one process"),
    # A reader process opens no log, whichever a run has chosen.
    pytest.param(2, id="two readers", marks=pytest.mark.embedded_log_only),
)
