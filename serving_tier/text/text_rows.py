"""Rows as documents of tantivy: what is kept of a row, and which fields hold it."""

from __future__ import annotations

from typing import Any, Final

import tantivy

from log_tier.rows.text_index import TextIndex
from serving_tier.fold.entry import entry_of
from serving_tier.text.text_page import TextRow

__all__ = ["EXPIRY", "KEY", "POINT", "POINT_TERM", "document_of", "key_term", "row_of", "schema_of", "text_row"]

# Names that no field of a row has: those do not begin with a digit.
KEY: Final = "0key"
VALUE: Final = "0value"
VERSION: Final = "0version"
EXPIRY: Final = "0expiry"
POINT: Final = "0point"
"""Of one document in an index on disk, which says where the index is. It is part of each commit."""

POINT_TERM: Final = "point"


def text_row(stored: bytes, log_time_ms: int) -> TextRow | None:
    """The row of a stored form; None: it has expired. Raises `IndexDamaged`."""
    value, version, expires_at_ms = entry_of(stored)
    return None if 0 < expires_at_ms <= log_time_ms else TextRow(value, version, expires_at_ms)


def schema_of(index: TextIndex) -> Any:
    """tantivy's schema. The texts are not stored: they are in the row's value, which is."""
    builder = tantivy.SchemaBuilder()
    for field in index.fields:
        builder.add_text_field(field)
    builder.add_text_field(KEY, tokenizer_name="raw", index_option="basic", stored=True)
    builder.add_bytes_field(VALUE, stored=True)
    builder.add_unsigned_field(VERSION, stored=True)
    builder.add_unsigned_field(EXPIRY, stored=True, indexed=True, fast=True)
    builder.add_text_field(POINT, tokenizer_name="raw", index_option="basic", stored=True)
    return builder.build()


def key_term(key: bytes) -> str:
    """A key as a term: each byte is one character."""
    return key.decode("latin-1")


def document_of(key: bytes, row: TextRow, fields: tuple[str, ...], texts: list[str | None]) -> Any:
    """The document of a row."""
    document = tantivy.Document()
    for field, text in zip(fields, texts, strict=True):
        if text is not None:
            document.add_text(field, text)
    document.add_text(KEY, key_term(key))
    document.add_bytes(VALUE, row.value)
    document.add_unsigned(VERSION, row.version)
    if row.expires_at_ms:
        document.add_unsigned(EXPIRY, row.expires_at_ms)
    return document


def row_of(document: Any) -> tuple[bytes, TextRow] | None:
    """Key and row of a document; None: it is the one that says where the index is."""
    key = document.get_first(KEY)
    if key is None:
        return None
    row = TextRow(document.get_first(VALUE), document.get_first(VERSION), document.get_first(EXPIRY) or 0)
    return key.encode("latin-1"), row
