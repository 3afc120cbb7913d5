"""Late replicas in a process that a test starts: the class that applies is changed when its module is imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

__all__ = ["LATE_VARIABLE", "apply_late"]

LATE_VARIABLE: Final = "DURAMEN_TESTS_APPLY_LATE_S"
"""How many seconds a replica waits."""

_MODULE: Final = "serving_tier.replica.apply"


def apply_late(applying: type[Any], seconds: float) -> None:
    """Replicas wait so long before each chunk of their log; their event loop goes on."""
    import asyncio
    from contextlib import aclosing

    chunk = applying.chunk

    async def late(self: Any, data: bytes) -> Any:
        await asyncio.sleep(seconds)
        async with aclosing(chunk(self, data)) as steps:
            async for step in steps:
                yield step

    applying.chunk = late


class _LateFinder(importlib.abc.MetaPathFinder):
    """Finds the module as others do, and has the class changed behind its import."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None
        loader: Any = spec.loader
        execute = loader.exec_module

        def execute_and_change(module: Any) -> None:
            execute(module)
            apply_late(module.Applying, float(os.environ[LATE_VARIABLE]))

        loader.exec_module = execute_and_change
        return spec


if LATE_VARIABLE in os.environ:
    sys.meta_path.insert(0, _LateFinder())
