"""The code of a changed source in the functions that a process already has."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final, NewType

__all__ = ["CANNOT_TRANSPLANT", "Functions", "live_functions", "transplant"]

Place = NewType("Place", "tuple[str, int]")
"""Qualified name and first line of a function."""

Functions = Mapping[str, Mapping[Place, list[FunctionType]]]
"""The functions of each file, by the file's absolute path."""

CANNOT_TRANSPLANT: Final = "its change is in what runs at import"


def live_functions(root: Path) -> Functions:
    """All functions of files below `root`, wherever they are held: as methods, properties, callbacks. O(objects)."""
    gc.unfreeze()  # frozen objects are not listed
    found: dict[str, dict[Place, list[FunctionType]]] = {}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename.startswith(f"{root}/"):
            of_file = found.setdefault(each.__code__.co_filename, {})
            of_file.setdefault(_place(each.__code__), []).append(each)
    gc.freeze()
    return found


def transplant(functions: Functions, path: Path, source: str, changed: str) -> str:
    """Give the functions of `path` the code of `changed`; why it cannot be done, if it cannot.

    Code objects of both sources are paired by their order. Defaults of parameters are made at import: they come from
    a second run of the module, in a namespace of its own.
    """
    before = list(_functions_of(compile(source, str(path), "exec", dont_inherit=True)))
    after = list(_functions_of(compile(changed, str(path), "exec", dont_inherit=True)))
    if [each.co_qualname for each in before] != [each.co_qualname for each in after]:
        return CANNOT_TRANSPLANT
    live = functions.get(str(path), {})
    put = 0
    for old, new in zip(before, after, strict=True):
        if old == new or (old.co_code == new.co_code and _constants(old) == _constants(new)):
            continue
        for function in live.get(_place(old), []):
            function.__code__ = new
            put += 1
    if put:
        return ""
    return "" if _put_defaults(live, path, changed) else CANNOT_TRANSPLANT


def _put_defaults(live: Mapping[Place, list[FunctionType]], path: Path, changed: str) -> bool:
    """Take over defaults that differ; `False` if none does."""
    module = next((inspect.getmodule(each) for found in live.values() for each in found), None)
    if module is None:
        return False
    namespace = {"__name__": module.__name__, "__package__": module.__package__, "__file__": str(path)}
    exec(compile(changed, str(path), "exec", dont_inherit=True), namespace)
    known = {id(each) for found in live.values() for each in found}
    differs = False
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__globals__ is namespace and id(each) not in known:
            for function in live.get(_place(each.__code__), []):
                if function.__defaults__ != each.__defaults__ or function.__kwdefaults__ != each.__kwdefaults__:
                    function.__defaults__ = each.__defaults__
                    function.__kwdefaults__ = each.__kwdefaults__
                    differs = True
    return differs


def _functions_of(code: CodeType) -> Iterator[CodeType]:
    """Functions of a module and of its classes; not those that a call of another one makes."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & inspect.CO_OPTIMIZED:
                yield each
            else:
                yield from _functions_of(each)


def _constants(code: CodeType) -> list[object]:
    """Constants and names, with nested functions as what they do: lines may have moved."""
    return [
        (each.co_code, _constants(each)) if isinstance(each, CodeType) else (type(each), each)
        for each in code.co_consts
    ] + [code.co_names]


def _place(code: CodeType) -> Place:
    return Place((code.co_qualname, code.co_firstlineno))
