"""Names of tables; `server` and `database` are in the conftest of all tests of Spark."""

from __future__ import annotations

import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture
def table_name() -> str:
    """A name that no other test of this process uses."""
    return f"spark{next(_numbers)}"
