"""A gRPC request as a short text without secrets: the arguments of a command, for a row of the audit.

Numbers and flags are shown, and texts of fields that are known to hold none: a field that somebody adds to a message is
hidden until its name is listed here. A URL loses its secrets.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from log_tier.audit.audit_event import TEXT_MAX
from log_tier.privacy.masked_url import mask_url

__all__ = ["request_text"]

_SHOWN: Final = frozenset(
    {
        "table",
        "name",
        "node",
        "source",
        "target",
        "over",
        "partitioner",
        "plan",
        "job",
        # Of users.
        "user",
        "role",
        "to",
        "grant",
        "grants",
        "token_id",
    }
)
"""Fields whose text is shown as it is."""
_URLS: Final = frozenset({"url", "location"})

# More would not fit in a row's text.
_FIELDS_MAX: Final = 20

_TEXTS: Final = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})


def request_text(request: Any) -> str:
    """`dry_run=True set_replicas table=orders replicas=2`; at most `TEXT_MAX` characters. Some 10 µs."""
    words: list[str] = []
    _describe(request, words)
    return " ".join(words)[:TEXT_MAX]


def _describe(message: Any, words: list[str]) -> None:
    for field, value in message.ListFields():
        if len(words) >= _FIELDS_MAX:
            return
        name = field.name
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            words.append(name)
            if not _is_repeated(value):
                _describe(value, words)
        elif field.type not in _TEXTS:
            words.append(f"{name}={list(value[:3]) if _is_repeated(value) else value}")
        elif name in _SHOWN:
            words.append(f"{name}={','.join(value[:5]) if _is_repeated(value) else value}"[:TEXT_MAX])
        elif name in _URLS and not _is_repeated(value):
            words.append(f"{name}={mask_url(value[: 4 * TEXT_MAX])}")


def _is_repeated(value: Any) -> bool:
    """Is it the value of a repeated field? Texts and bytes are sequences as well."""
    return hasattr(value, "__len__") and not isinstance(value, (str, bytes))
