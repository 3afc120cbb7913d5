"""A text index of a table of rows: its name, and the fields whose words it has."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from log_tier.model.errors import InvalidSchema
from log_tier.rows.elements import decode_element
from log_tier.rows.index_entries import elements_of
from log_tier.rows.key_fields import key_type_of, without_null
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import INDEX_FIELDS_MAX, INDEX_NUMBER_MAX, INDEXES_MAX, FieldPath, TableIndex, type_at

__all__ = [
    "TEXT_KIND",
    "ReadsTexts",
    "TextIndex",
    "indexes_refusal",
    "listed_texts",
    "text_reader",
    "texts_from_listed",
]

TEXT_KIND: Final = "text"
"""What a caller says who wants a text index, and no ordered one."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_PATH: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)

ReadsTexts = Callable[[bytes, int], list[str | None]]
"""From a value that fits and the place of its frame: the texts of the fields, None where a field is null."""


@dataclass(frozen=True, slots=True)
class TextIndex:
    """One text index. Raises `InvalidSchema`, which names it, for parts that are none.

    The fold knows nothing of it: no entry of LMDB is of a text index. It follows the replica (`serving_tier.text`).
    """

    number: int
    """Of the table; ordered indexes and text indexes are numbered together, and a number is not used again."""
    name: str
    fields: tuple[str, ...]
    """Texts, or fields that may be null; `origin.city` is the field `city` of the record in the field `origin`."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            _refuse(self, "a name has 1 to 64 letters, digits, _ and -, and begins with a letter or _")
        if type(self.number) is not int or not 1 <= self.number <= INDEX_NUMBER_MAX:
            _refuse(self, f"its number is 1 to {INDEX_NUMBER_MAX}, not {ascii(self.number)[:40]}")
        if not isinstance(self.fields, tuple) or not 1 <= len(self.fields) <= INDEX_FIELDS_MAX:
            _refuse(self, f"it has 1 to {INDEX_FIELDS_MAX} fields")
        for path in self.fields:
            if not isinstance(path, str) or not _PATH.fullmatch(path):
                _refuse(self, f"{ascii(path)[:60]} is no field: names of fields, with dots between them")
            if self.fields.count(path) > 1:
                _refuse(self, f"it has the field {path} twice")

    @property
    def paths(self) -> tuple[FieldPath, ...]:
        """The fields as paths."""
        return tuple(tuple(each.split(".")) for each in self.fields)

    def check(self, schemas: Sequence[RowSchema]) -> None:
        """Raise `InvalidSchema` where a field is no text in one of these schemas. O(schemas)."""
        for schema in schemas:
            for path in self.paths:
                found = type_at(path, schema)
                if isinstance(found, str):
                    _refuse(self, found)
                if key_type_of(without_null(found[0])[0], schema) != "str":
                    _refuse(self, f"the field {'.'.join(path)} is no text in the schema {schema.name}")


def text_reader(index: TextIndex, schemas: Sequence[NumberedSchema]) -> ReadsTexts:
    """A reader of the texts of an index. It raises `KeyError` for a row of another schema. Some 2 µs a field."""
    elements = elements_of(schemas, index.paths)

    def read(value: bytes, at: int) -> list[str | None]:
        found = [decode_element(each, 0)[0] for each in elements(value, at)]
        return [each if isinstance(each, str) else None for each in found]

    return read


def indexes_refusal(indexes: Sequence[TableIndex], texts: Sequence[TextIndex], values: str) -> str:
    """Why a table whose values are these cannot have these indexes together; empty: it can."""
    if not isinstance(indexes, tuple) or not all(isinstance(each, TableIndex) for each in indexes):
        return "they are a tuple of TableIndex"
    if not isinstance(texts, tuple) or not all(isinstance(each, TextIndex) for each in texts):
        return "those of texts are a tuple of TextIndex"
    every = (*indexes, *texts)
    if every and values != "row":
        return f"its values are {values}: tables of rows alone have indexes"
    if len(every) > INDEXES_MAX:
        return f"a table has at most {INDEXES_MAX}, not {len(every)}"
    names = [each.name for each in every]
    for name in names:
        if names.count(name) > 1:
            return f"two of them are called {name}"
    numbers, numbers_of_texts = [each.number for each in indexes], [each.number for each in texts]
    if numbers != sorted(set(numbers)) or numbers_of_texts != sorted(set(numbers_of_texts) - set(numbers)):
        return f"each has a number of its own, in their order: {[*numbers, *numbers_of_texts]}"
    return ""


def listed_texts(texts: Sequence[TextIndex]) -> list[list[Any]]:
    """Text indexes as values of JSON."""
    return [[each.number, each.name, list(each.fields)] for each in texts]


def texts_from_listed(listed: Sequence[Sequence[Any]]) -> tuple[TextIndex, ...]:
    """Read them. Raises `InvalidSchema`, `ValueError`, `TypeError`."""
    return tuple(TextIndex(number, name, tuple(fields)) for number, name, fields in listed)


def _refuse(index: TextIndex, why: str) -> NoReturn:
    name = index.name if isinstance(index.name, str) and len(index.name) <= 64 else ascii(index.name)[:64]
    raise InvalidSchema(f"the text index {name}: {why}", field=name, reason=why)
