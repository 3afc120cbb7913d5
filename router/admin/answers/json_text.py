"""Bytes in a JSON document: UTF-8 as it is, anything else as `base64:…`; and text that begins so itself, too."""

from __future__ import annotations

import base64
from typing import Final

__all__ = ["BASE64", "encoded", "json_text"]

BASE64: Final = "base64:"


def json_text(data: bytes) -> str:
    """`data` for a JSON string."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return encoded(data)
    return encoded(data) if text.startswith(BASE64) else text


def encoded(data: bytes) -> str:
    """`data` in the form that says so."""
    return BASE64 + base64.b64encode(data).decode("ascii")
