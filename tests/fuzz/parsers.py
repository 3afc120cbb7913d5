"""The parsers of the product: functions that make values of bytes and texts, found in the source and seen at work.

A function is a parser if its name says so, or if it calls what every parser ends in: a decoder of a library that can
refuse. A function that takes bytes apart with slices and indexes alone, and whose name hides it, is not found.
"""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, NamedTuple

from fuzz.target import Target

__all__ = ["PRODUCT", "Parser", "entered", "parsers_in", "parsers_of"]

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("log_tier", "serving_tier", "router", "duramen", "spark_bulk")
_NAMED: Final = re.compile(r"_*(parse|decode|unpack)|from_(bytes|json|text|document)$|\w*_(from|of)_(bytes|json|text)$")
_OF_MESSAGE: Final = re.compile(r"\w+_from$")
"""The name of what makes something of a message of protobuf."""
_METHODS: Final = frozenset(
    (
        *("unpack", "unpack_from", "iter_unpack", "FromString", "ParseFromString", "MergeFromString", "decompress"),
        *("b64decode", "urlsafe_b64decode", "unhexlify", "fromhex", "frombuffer", "from_buffers", "fromisoformat"),
        *("parse_qs", "parse_qsl", "urlsplit", "urlparse", "literal_eval", "ParquetFile", "iter_batches", "DictReader"),
        *("load_pem_x509_certificate", "load_pem_x509_certificates", "load_der_x509_certificate"),
        *("load_pem_private_key", "schemaless_reader"),
    )
)
"""Decoders that can refuse, by name. `int.from_bytes`, `unquote` and the like take everything."""

_OF_MODULES: Final = frozenset(
    {"csv.reader", *(f"{module}.{name}" for module in ("json", "tomllib", "pickle") for name in ("load", "loads"))}
)
_TOTAL: Final = frozenset({"latin-1", "replace", "backslashreplace", "surrogateescape", "ignore"})
"""With one of these `bytes.decode` takes everything."""
_ENCODERS: Final = frozenset({"b64encode", "urlsafe_b64encode", "hexlify", "encode"})
_Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_HINT: Final = re.compile(
    r"parse|decode|unpack|loads?\(|String\(|_from\b|from_|read|hex|compress|Parquet|url|pem|buffer|iso"
)
"""A source without any of these has no parser: it need not be read as Python."""
_FIRST_INPUTS: Final = 5
"""Of each target, behind its samples: what they do not reach a changed one may."""


class Parser(NamedTuple):
    """A function of the product."""

    file: str
    """Below the repository."""
    name: str
    """Qualified, as Python has it."""


@cache
def parsers_of() -> Sequence[Parser]:
    """All parsers of the product, in the order of their files. A second."""
    found: list[Parser] = []
    for package in PRODUCT:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "_pb2" not in path.name:
                file, source = path.relative_to(ROOT).as_posix(), path.read_text()
                if _HINT.search(source):
                    found += (Parser(file, name) for name in parsers_in(source))
    return found


def parsers_in(source: str) -> list[str]:
    """The qualified names of the parsers of a module."""
    tree = ast.parse(source)
    modules = {
        each.asname or each.name
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for each in node.names
        if each.name.endswith("_pb2")
    }
    return list(_within(tree, "", modules))


def _within(node: ast.AST, before: str, modules: AbstractSet[str]) -> Iterator[str]:
    """Those inside of a module, a class or a function."""
    for child, calls in _functions(node):
        name = before + child.name
        if isinstance(child, ast.ClassDef):
            yield from _within(child, f"{name}.", modules)
            continue
        if not _is_stub(child) and (_is_named(child, modules) or any(map(_decodes, calls))):
            yield name
        yield from _within(child, f"{name}.<locals>.", modules)


def _functions(node: ast.AST) -> Iterator[tuple[_Named, list[ast.Call]]]:
    """The functions and classes right inside of a node, in their order, each with the calls that it makes itself."""
    for child in _walked(node):
        if isinstance(child, _Named):
            yield child, [each for each in _walked(child) if isinstance(each, ast.Call)]


def _walked(node: ast.AST) -> Iterator[ast.AST]:
    """What is inside of a node, but what is inside of functions and classes in it, in the order of the source."""
    waiting = list(ast.iter_child_nodes(node))[::-1]
    while waiting:
        child = waiting.pop()
        yield child
        if not isinstance(child, _Named):
            waiting += list(ast.iter_child_nodes(child))[::-1]


def _is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is it of a protocol, without a body?"""
    return all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in function.body)


def _is_named(function: ast.FunctionDef | ast.AsyncFunctionDef, modules: AbstractSet[str]) -> bool:
    given = [*function.args.posonlyargs, *function.args.args]
    hints = [ast.unparse(each.annotation) for each in given if each.annotation is not None]
    if not hints:
        return False
    if _NAMED.match(function.name):
        return True
    return bool(_OF_MESSAGE.match(function.name)) and any(
        re.search(rf"\b{re.escape(module)}\.", hint) for hint in hints for module in modules
    )


def _decodes(call: ast.Call) -> bool:
    called = call.func
    if isinstance(called, ast.Name):
        return called.id in _METHODS or called.id.startswith("_unpack")
    if not isinstance(called, ast.Attribute):
        return False
    if called.attr == "decode":
        return _may_refuse(call, called.value)
    of = called.value.id if isinstance(called.value, ast.Name) else ""
    return f"{of}.{called.attr}" in _OF_MODULES or called.attr in _METHODS


def _may_refuse(call: ast.Call, decoded: ast.expr) -> bool:
    """Of a call of `decode`: may it be of bytes that are no text?"""
    if isinstance(decoded, ast.Call) and isinstance(decoded.func, ast.Attribute) and decoded.func.attr in _ENCODERS:
        return False
    given = [*call.args, *(each.value for each in call.keywords)]
    if not all(isinstance(each, ast.Constant) for each in given):
        return False  # a codec's, and no bytes'
    return not _TOTAL & {each.value for each in given if isinstance(each, ast.Constant)}


def entered(targets: Iterable[Target]) -> dict[Parser, str]:
    """Each function of the product that a target enters while it reads its samples and some inputs, and which target.

    What a target makes once is made before. Some 6 s of processor time for all targets.
    """
    found: dict[CodeType, str] = {}
    modules, caches = 0, list[Any]()
    for target in targets:
        plain = target.samples()
        samples = [(target.seal or bytes)(each) for each in plain]
        inputs = [*samples, *(target.small_input(plain, Random(number)) for number in range(_FIRST_INPUTS))]
        for data in samples:
            _read(target, data)
        if len(sys.modules) != modules:
            modules, caches = len(sys.modules), list(_caches())
        for cached in caches:
            cached.cache_clear()
        with _watched(partial(_note, found, target.name)):
            for data in inputs:
                _read(target, data)
    return {
        Parser(code.co_filename.removeprefix(f"{ROOT}/"), code.co_qualname): name
        for code, name in found.items()
        if code.co_filename.startswith(f"{ROOT}/")
    }


def _caches() -> Iterator[Any]:
    """What the product's modules remember of calls: a parser that is asked again would not be entered."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PRODUCT:
            yield from (each for each in list(vars(module).values()) if hasattr(each, "cache_clear"))


def _read(target: Target, data: bytes) -> None:
    try:
        target.read(data)
    except target.refusals:
        return


def _note(found: dict[CodeType, str], name: str, frame: FrameType, event: str, _: Any) -> None:
    if event == "call":
        found.setdefault(frame.f_code, name)


@contextmanager
def _watched(hook: Callable[[FrameType, str, Any], None]) -> Iterator[None]:
    """A hook sees the calls meanwhile, those of threads that begin meanwhile as well."""
    threading.setprofile(hook)
    sys.setprofile(hook)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
