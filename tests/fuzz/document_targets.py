"""The documents that Duramen stores and sends, each by its own reader in an empty folder."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from kit.storage.versioned_document import Document
from kit.storage.versioned_documents import documents, token_of

from fuzz.sealing import sealed_batch, sealed_text, sealed_token
from fuzz.target import Target
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import Offset, Partition
from log_tier.model.tokens import Token

__all__ = ["document_targets"]


class _NoJson(Exception):
    """No JSON that is read."""


_MEMORY: Final = Path("/dev/shm")
_WRITTEN_WITH_CHECK: Final = b'"check": "'
_REFUSALS: Final[dict[str, tuple[type[Exception], ...]]] = {
    "position of a Spark stream": (DuramenError, _NoJson),
    "history of a check": (DuramenError, UnicodeDecodeError),
    "token": (DuramenError, UnicodeDecodeError),
    "definition of a table": (DuramenError, _NoJson),
}
"""Spark itself parses the JSON of a position, and others that of a definition; a history and a token are texts."""


def _check_json(data: bytes) -> None:
    try:
        json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _NoJson from error


def _read(document: Document, refusals: tuple[type[Exception], ...], data: bytes) -> object:
    folder = Path(tempfile.mkdtemp(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        if _NoJson in refusals:
            _check_json(data)
        return document.read(data, folder)
    finally:
        shutil.rmtree(folder)


def _samples(document: Document) -> list[bytes]:
    return [each for each in (document.good, document.unknown, document.newer) if each is not None]


def _token_again(data: bytes) -> None:
    """A token that is read and written again is the same token."""
    token = Token.parse(data.decode("ascii"))
    assert Token.parse(str(token)) == token


def _token_bodies() -> list[bytes]:
    good = Token.parse(token_of(0).decode())
    (table,) = good.tables
    more = Token({table: {Partition(number): Offset(1 << number) for number in range(40)}}, session=True)
    return [_body_of(good), _body_of(more), _body_of(Token())]


def _body_of(token: Token) -> bytes:
    text = str(token).removeprefix("d1.")
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))[:-4]


def document_targets() -> Iterator[Target]:
    """One for each document, and one more for each that has a checksum in its text."""
    for name, document in documents().items():
        plain = name.replace("`", "")
        refusals = _REFUSALS.get(name, (DuramenError,))
        read, samples = partial(_read, document, refusals), partial(_samples, document)
        yield Target(plain, samples, read, refusals)
        if _WRITTEN_WITH_CHECK in document.good:
            yield Target(f"{plain}, sealed", samples, read, refusals, seal=sealed_text)
        if name == "batch":
            yield Target(f"{plain}, sealed", samples, read, refusals, seal=sealed_batch)
    yield Target("token, sealed", _token_bodies, _token_again, seal=sealed_token)
