"""What a specification defines, and which function of the code each definition stands for."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

__all__ = ["FOLDER", "SPECIFICATIONS", "actions_of", "names_in", "stands_for"]

TOP: Final = Path(__file__).parents[2]
FOLDER: Final = TOP / "docs" / "spec"
SPECIFICATIONS: Final = ("ExactlyOnce", "ReadYourWrites")

_DEFINITION: Final = re.compile(r"^(\w+)(?:\([^)]*\))? ==", re.MULTILINE)
_STANDS_FOR: Final = re.compile(
    r"^\\\* ([\w/]+\.py)\b[^\n]*\n(?:\\\*[^\n]*\n)*((?:\w+(?:\([^)]*\))? ==))", re.MULTILINE
)
_ACTION: Final = re.compile(r"^  \\/ (?:\\E [^:]+ : )?(\w+)", re.MULTILINE)


def text_of(specification: str) -> str:
    """The module's text."""
    return (FOLDER / f"{specification}.tla").read_text(encoding="utf-8")


def defined_in(specification: str) -> set[str]:
    """Every name that a module defines."""
    return set(_DEFINITION.findall(text_of(specification)))


def stands_for(specification: str) -> dict[str, str]:
    """Definition → the file of the function that it stands for, as the comment before it says."""
    found = _STANDS_FOR.findall(text_of(specification))
    return {re.split(r"\W", definition, maxsplit=1)[0]: file for file, definition in found}


def actions_of(specification: str) -> list[str]:
    """What `Next` consists of."""
    text = text_of(specification)
    body = text[text.index("\nNext ==") : text.index("\nSpec ==")]
    return _ACTION.findall(body)


def names_in(file: str) -> set[str]:
    """Every function and method that a file of the repository defines."""
    tree = ast.parse((TOP / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
