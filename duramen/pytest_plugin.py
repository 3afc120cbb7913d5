"""The pytest plugin: fixtures of `duramen.testing`, and one option to repeat what a seed has found.

pytest loads it by itself where Duramen is installed (`-p no:duramen` leaves it out). It imports nothing of the kit, and
no gRPC, until a test asks for a fixture.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from duramen.blocking import Database, Table
    from duramen.testing import Embedded, Server

__all__ = [
    "duramen_db",
    "duramen_embedded",
    "duramen_server",
    "duramen_table",
    "pytest_addoption",
    "pytest_configure",
    "pytest_unconfigure",
]

_OPTIONS: Final = {"--duramen-seed": "DURAMEN_SEED", "--duramen-seeds": "DURAMEN_SEEDS"}
"""By option, the variable that `duramen.testing.simulated` reads."""

_BEFORE: Final = pytest.StashKey[dict[str, str | None]]()
"""What the variables were before this run of pytest."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--duramen-seed 7`, `--duramen-seeds 500`."""
    group = parser.getgroup("duramen", "Duramen, in virtual time")
    group.addoption(
        "--duramen-seed",
        type=int,
        metavar="N",
        help="run each @simulated test with this seed alone, to repeat a failure",
    )
    group.addoption(
        "--duramen-seeds",
        type=int,
        metavar="N",
        help="run @simulated tests that have several seeds with seeds 0 to N-1",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hand the options to the kit, which may not be imported yet."""
    config.stash[_BEFORE] = {variable: os.environ.get(variable) for variable in _OPTIONS.values()}
    for option, variable in _OPTIONS.items():
        value = config.getoption(option)
        if value is not None:
            os.environ[variable] = str(value)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leave the environment as it was."""
    for variable, value in config.stash.get(_BEFORE, {}).items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value


@pytest.fixture
def duramen_embedded() -> Iterator[Embedded]:
    """A database of the test's own in this process, with `database`, `faults` and `restart`: `testing.Embedded`."""
    from duramen.testing import Embedded

    with Embedded() as embedded:
        yield embedded


@pytest.fixture
def duramen_db(duramen_embedded: Embedded) -> Database:
    """The blocking database of `duramen_embedded`, as `duramen.open` gives one. After a `restart` there is another."""
    return duramen_embedded.database


@pytest.fixture
def duramen_table(duramen_db: Database) -> Table:
    """An empty table, `table`, with one partition, in `duramen_db`."""
    return duramen_db.create_table("table", partitions=1)


@pytest.fixture
def duramen_server() -> Iterator[Server]:
    """A server of the test's own, with `address`, `redis_url`, `faults`, `kill` and `start`: `testing.Server`."""
    from duramen.testing import Server

    with Server() as server:
        yield server
