"""A grant: some of three rights, on a table or on all tables with a prefix, on all keys or on those with a prefix.

    read,write orders* --key eu:

The text is what the catalog's log holds, what a person types and what a refusal names. A key prefix that is not
printable ASCII is written `base64:…`.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import NAME_LENGTH_MAX, RESERVED_PREFIX

__all__ = ["KEY_PREFIX_BYTES_MAX", "Grant", "Right", "cut_key_prefix", "key_prefix_text", "parse_key_prefix"]

# A prefix is typed by people and repeated in refusals.
KEY_PREFIX_BYTES_MAX: Final = 256

_PATTERN: Final = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*)?\*|[A-Za-z0-9_][A-Za-z0-9_.-]*")
_BASE64: Final = "base64:"


class Right(StrEnum):
    """What a grant allows. None of them implies another one."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


def key_prefix_text(prefix: bytes) -> str:
    """A key prefix as `--key` takes it."""
    text = prefix.decode("ascii") if prefix.isascii() else "\n"
    if text.isprintable() and " " not in text and not text.startswith(_BASE64):
        return text
    return _BASE64 + base64.b64encode(prefix).decode("ascii")


def parse_key_prefix(text: str) -> bytes:
    """The bytes of a key prefix. Raises `InvalidRequest` for what follows `base64:` and is none."""
    if not text.startswith(_BASE64):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(_BASE64), validate=True)
    except ValueError as error:
        raise InvalidRequest(f"the key prefix {text!r} is no base64: {error}") from error


def cut_key_prefix(text: str) -> bytes:
    """The bytes of a key prefix whose text may have been cut; empty: it is none."""
    if not text.startswith(_BASE64):
        return text.encode()
    whole = len(text) - (len(text) - len(_BASE64)) % 4
    try:
        return parse_key_prefix(text[:whole])
    except InvalidRequest:
        return b""


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights on tables. Raises `InvalidRequest` where it cannot be.

    Tables whose names begin with `_duramen` are covered by a pattern that begins so as well, and by no other one; they
    can be read, and nobody can be granted more. `admin` concerns whole tables and has no key prefix.
    """

    rights: frozenset[Right]
    table: str
    """A table's name, or a prefix of names with a trailing `*`."""
    key: bytes = b""
    """The prefix of the keys; empty: all keys."""

    def __post_init__(self) -> None:
        if not self.rights:
            raise InvalidRequest("a grant has at least one of the rights read, write, admin")
        if not _PATTERN.fullmatch(self.table) or len(self.table) > NAME_LENGTH_MAX:
            raise InvalidRequest(
                f"{self.table!r} is no table of a grant: give a table's name, or a prefix and '*', "
                f"of at most {NAME_LENGTH_MAX} characters"
            )
        if len(self.key) > KEY_PREFIX_BYTES_MAX:
            raise InvalidRequest(
                f"the key prefix has {len(self.key)} bytes, a grant takes at most {KEY_PREFIX_BYTES_MAX}"
            )
        if self.key and Right.ADMIN in self.rights:
            raise InvalidRequest("admin concerns whole tables: grant it without a key prefix")
        if self.table.startswith(RESERVED_PREFIX) and self.rights != {Right.READ}:
            raise InvalidRequest(f"tables that begin with {RESERVED_PREFIX} can be read only: grant read {self.table}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The grant of a text as `text` writes it. Raises `InvalidRequest`."""
        parts = text.split(" ")
        if len(parts) not in (2, 4) or (len(parts) == 4 and parts[2] != "--key"):
            raise InvalidRequest(f"{text!r} is no grant: write RIGHTS TABLE [--key PREFIX], as in 'read,write orders*'")
        try:
            rights = frozenset(Right(word) for word in parts[0].split(","))
        except ValueError as error:
            raise InvalidRequest(f"{parts[0]!r} are no rights: choose of read, write, admin") from error
        return cls(rights, parts[1], parse_key_prefix(parts[3]) if len(parts) == 4 else b"")

    @property
    def text(self) -> str:
        """`read,write orders* --key eu:`: the same grant has the same text."""
        rights = ",".join(right for right in Right if right in self.rights)
        return f"{rights} {self.table}" + (f" --key {key_prefix_text(self.key)}" if self.key else "")

    def __str__(self) -> str:
        return self.text
