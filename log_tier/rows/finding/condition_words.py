"""Conditions as a person writes them, and as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from log_tier.model.errors import InvalidKey, InvalidRequest
from log_tier.rows.definition import TableDefinition
from log_tier.rows.finding.conditions import found_field, given_by, refused_condition
from log_tier.rows.json_rows.json_keys import element_of_json, element_of_text, text_of_element
from log_tier.rows.table_index import FieldCondition, TableIndex

__all__ = ["conditions_of_json", "conditions_of_words", "index_words", "words_of", "words_of_conditions"]

_BETWEEN = ".."


def conditions_of_words(words: Sequence[str], definition: TableDefinition) -> dict[str, Any]:
    """Conditions for `conditions_of`, each of a word: `tailnum=N14228`, `dep_delay=60..`, `origin.code` for one that is
    null.

    Raises `InvalidRequest`, which names the field, for a field that rows are not found by, for one that is named twice,
    and for a value that is none of it.
    """
    given: dict[str, Any] = {}
    for word in words:
        path, sign, text = word.partition("=")
        if path in given:
            raise InvalidRequest(f"the field {ascii(path)[:80]} has two conditions: write one, or a range A..B")
        field, _ = found_field(path, definition)

        def value_of(text: str, path: str = path, field: Any = field) -> Any:
            try:
                return element_of_text(field, text)
            except InvalidKey as error:
                raise refused_condition(path, field, error) from None

        if not sign:
            given[path] = None
        elif _BETWEEN in text:
            given[path] = tuple(value_of(each) if each else None for each in text.split(_BETWEEN, 1))
        else:
            given[path] = value_of(text)
    return given


def words_of_conditions(conditions: Sequence[FieldCondition]) -> list[str]:
    """The same of conditions."""
    return words_of(given_by(conditions))


def words_of(given: Mapping[str, Any]) -> list[str]:
    """Conditions as a person writes them: what `conditions_of_words` reads, apart from texts with `..` in them."""
    words = []
    for path, wanted in given.items():
        if isinstance(wanted, tuple):
            words.append(f"{path}={_BETWEEN.join('' if each is None else text_of_element(each) for each in wanted)}")
        else:
            words.append(path if wanted is None else f"{path}={text_of_element(wanted)}")
    return words


def index_words(index: TableIndex) -> str:
    """An index for people: `unique open_by_tail (tailnum) where status=open`."""
    where = f" where {', '.join(words_of_conditions(index.where))}" if index.where else ""
    return f"{'unique ' if index.unique else ''}{index.name} ({', '.join(index.fields)}){where}"


def conditions_of_json(found: Mapping[str, Any], definition: TableDefinition) -> dict[str, Any]:
    """Conditions for `conditions_of`, of an object of JSON: a value, or a list of two, a range. Raises as
    `conditions_of_words`.
    """
    given: dict[str, Any] = {}
    for path, wanted in found.items():
        field, _ = found_field(path, definition)
        try:
            if isinstance(wanted, list):
                given[path] = tuple(None if each is None else element_of_json(field, each) for each in wanted)
            else:
                given[path] = element_of_json(field, wanted)
        except InvalidKey as error:
            raise refused_condition(path, field, error) from None
    return given
