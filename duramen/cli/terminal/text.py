"""Bytes as text and back: UTF-8 where it can be read, `base64:…` where not. Counts with their noun.

    b"UA1545"            UA1545
    b"caf\\xc3\\xa9"       café
    b"\\x00\\x01"          base64:AAE=            no printable text
    b"\\xff"              base64:/w==            no UTF-8
    b"base64:x"          base64:YmFzZTY0Ong=    text that would read as base64

For people, control characters count as unprintable (a key must not move a terminal's cursor), but a value may hold
line ends and tabs. In JSON, which escapes them, all UTF-8 is text.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from log_tier.model.errors import InvalidRequest
from router.admin.answers.json_text import BASE64, encoded, json_text

__all__ = ["BASE64", "bytes_of", "counted", "json_text", "obeyed_by_none", "shown_key", "shown_line", "shown_value"]

_KEPT: Final = "\n\t"

_LINE_BREAKS: Final = str.maketrans("", "", "\n\r\t")


def counted(count: int, noun: str) -> str:
    """A count with its noun in the right number: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def obeyed_by_none(text: str) -> str:
    """A text with line ends and tabs, and `\\x1b` and the like for everything else that a terminal obeys, or that turns
    the direction of writing. O(its size).
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _KEPT else ascii(each)[1:-1] for each in text)


def shown_key(data: bytes) -> str:
    """A key for people; also a value that must stay on one line."""
    text = json_text(data)
    return text if text.isprintable() else encoded(data)


def shown_line(text: str) -> str:
    """What a server sent, on one line and without anything that a terminal obeys."""
    plain = " ".join(text.split()) if not text.isprintable() else text
    return plain if plain.isprintable() else shown_key(plain.encode("utf-8", "surrogateescape"))


def shown_value(data: bytes) -> str:
    """A value for people, over as many lines as it has."""
    text = json_text(data)
    return text if text.translate(_LINE_BREAKS).isprintable() else encoded(data)


def bytes_of(text: str) -> bytes:
    """Convert a typed key or value to bytes. Raises `InvalidRequest` where `base64:` is followed by something else."""
    if not text.startswith(BASE64):
        return text.encode("utf-8", "surrogateescape")  # the shell's own bytes, whatever they are
    try:
        return base64.b64decode(text[len(BASE64) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{text[:40]!r} is no base64 ({error}); text that begins so is typed in base64") from error
