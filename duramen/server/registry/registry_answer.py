"""An answer of the registry, with the numbers of errors that its clients know."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from duramen.server.sight.http_messages import HttpReply

__all__ = [
    "NOT_HERE",
    "READ_ONLY",
    "SCHEMA_INVALID",
    "SCHEMA_NOT_FOUND",
    "SUBJECT_NOT_FOUND",
    "VERSION_INVALID",
    "VERSION_NOT_FOUND",
    "RegistryAnswer",
    "refused",
]

NOT_HERE: Final = 404
"""No such path."""
SUBJECT_NOT_FOUND: Final = 40401
VERSION_NOT_FOUND: Final = 40402
SCHEMA_NOT_FOUND: Final = 40403
SCHEMA_INVALID: Final = 42201
VERSION_INVALID: Final = 42202
READ_ONLY: Final = 42205
"""Clients know it as an operation that is not permitted."""

_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryAnswer(NamedTuple):
    """A status of HTTP and a document of JSON."""

    status: int
    document: Any = None
    text: str | None = None
    """JSON as it is, in place of a document."""
    is_unknown: bool = False
    """Is it refused because something is not there? A newer map may have it."""

    def reply(self, headers: tuple[tuple[str, str], ...] = ()) -> HttpReply:
        """The same as a reply of HTTP. O(its size)."""
        text = json.dumps(self.document, separators=(",", ":")) if self.text is None else self.text
        return HttpReply(self.status, text.encode(), headers, _CONTENT_TYPE)


def refused(number: int, message: str, *, status: int | None = None) -> RegistryAnswer:
    """An error. `status`: of HTTP, where its number does not begin with it."""
    found = (number if number < 1000 else number // 100) if status is None else status
    document = {"error_code": number, "message": message}
    return RegistryAnswer(found, document, is_unknown=SUBJECT_NOT_FOUND <= number <= SCHEMA_NOT_FOUND)
