"""The syntax trees of all files are kept while the rules are checked: a million objects without a cycle."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def no_collector() -> Iterator[None]:
    """Python's collector of cycles finds nothing in syntax trees: it takes longer over them than the parser. Tests that
    run later in this process have them around, and the collector does not look at them any more.
    """
    gc.disable()
    yield
    gc.enable()
    gc.freeze()
