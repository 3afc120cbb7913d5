"""Public names of a module that are imported when they are first asked for (PEP 562).

What a module offers and few programs use need not cost every program its import. The module names each such name with
the module that defines it, and once more under `TYPE_CHECKING`, so that type checkers see what they always saw.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["later_names"]


def later_names(
    namespace: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module with that namespace. `modules`: by name, the module that defines it.

    A name that was asked for once is in the namespace from then on, and costs nothing more.
    """

    def found(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        namespace[name] = getattr(import_module(modules[name]), name)
        return namespace[name]

    def listed() -> list[str]:
        return sorted({*namespace, *modules})

    return found, listed
