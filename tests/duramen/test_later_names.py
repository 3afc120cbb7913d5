"""Names that a module imports when they are first asked for are like all others of it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from types import ModuleType

import pytest

import duramen
import duramen.aio
import duramen.blocking

MODULES = [duramen, duramen.aio, duramen.blocking]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_name_is_there(module: ModuleType) -> None:
    missing = [name for name in module.__all__ if not hasattr(module, name)]
    assert missing == []
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_a_name_that_is_none_is_refused_as_ever(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{module.__name__}' has no attribute 'Flight'"):
        _ = module.Flight
    with pytest.raises(ImportError, match="cannot import name 'Flight'"):
        exec(f"from {module.__name__} import Flight")


def test_a_name_is_the_one_that_its_module_defines() -> None:
    from log_tier.model.tokens import Token
    from log_tier.rows.tuple_key import pack_key

    assert duramen.Token is Token
    assert duramen.pack_key is pack_key
    token = Token({})
    assert pickle.loads(pickle.dumps(token)) == token


@pytest.mark.parametrize(
    ("module", "name", "brings"),
    [
        ("duramen", "Digits", "duramen.client.rows.shapes.marks"),
        ("duramen", "pack_key", "log_tier.rows.tuple_key"),
        ("duramen", "bounded", "duramen.client.model.consistency"),
        ("duramen.aio", "RowTable", "duramen.client.row_table"),
        ("duramen.blocking", "RowTable", "duramen.blocking.row_table"),
        ("duramen.blocking", "TypedTable", "duramen.blocking.typed_table"),
    ],
)
def test_a_name_is_imported_when_it_is_asked_for(module: str, name: str, brings: str) -> None:
    is_there = f"print({brings!r} in sys.modules)"
    code = f"import sys, {module}\n{is_there}\nfrom {module} import {name}\n{is_there}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
