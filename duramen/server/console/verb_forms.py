"""The verbs of administration as JSON, of which the page makes its forms: a verb that is declared is there. Pure.

Nothing of a cluster is in it: it is the same for everybody, as the page's own files are.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from router.admin.verb import Argument, OfPartitionArgument, Option, PartitionArgument, Verb
from router.admin.verbs import VERBS

__all__ = ["FORMS_FORMAT", "verb_forms_to_json"]

FORMS_FORMAT: Final = 1

_KINDS: Final = {bool: "flag", int: "number", str: "text"}


def verb_forms_to_json() -> bytes:
    """All verbs in the order of their declaration. Some ms."""
    forms = [_form(verb) for verb in VERBS.values()]
    return json.dumps({"format": FORMS_FORMAT, "verbs": forms}, ensure_ascii=False, separators=(",", ":")).encode()


def _form(verb: Verb) -> dict[str, Any]:
    text = inspect.cleandoc(verb.change.__doc__ or "").split("\n\n")
    return {
        "message": verb.message,
        "words": verb.message.replace("_", " "),
        "help": " ".join(" ".join(text).split()),
        "destroys": verb.destroys,
        "destroys_if": [str(action) for action in verb.destroys_if],
        "fields": list(_fields(verb)),
    }


def _fields(verb: Verb) -> Iterator[dict[str, Any]]:
    change: Any = verb.change
    for name, hint in get_type_hints(change, include_extras=True).items():
        kind, *how = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        said = how[0] if how else None
        usual = change._field_defaults.get(name)
        yield {
            "name": name,
            "words": name.replace("_", " "),
            "kind": _KINDS[_plain(kind)],
            "required": name not in change._field_defaults,
            "usual": "" if usual is None or isinstance(usual, bool) else str(usual),
            "help": _help(said),
        }


def _help(said: Any) -> str:
    if isinstance(said, (Argument, Option)):
        return said.help
    if isinstance(said, PartitionArgument):
        return "The table's name."
    return "The number of its partition." if said is OfPartitionArgument else ""


def _plain(kind: Any) -> type:
    """The type of a field, without None and new types."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        kind = next(each for each in get_args(kind) if each is not type(None))
    kind = getattr(kind, "__supertype__", kind)
    assert isinstance(kind, type), f"a field of a verb is {kind}"
    return kind
