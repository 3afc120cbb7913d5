"""What a table's keys and values are: its definition."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import starmap
from typing import Any, Final, Literal, NoReturn, get_args

from log_tier.model.errors import InvalidKey, InvalidRequest, InvalidSchema, UnknownFormat
from log_tier.model.kept_history import KeptHistory
from log_tier.model.record import check_key
from log_tier.rows.avro.avro_types import AvroType
from log_tier.rows.judge import RowJudge
from log_tier.rows.key_fields import (
    KEY_FIELDS_MAX,
    KeyField,
    is_local_time,
    key_field_refusal,
    keyed_value,
    without_null,
)
from log_tier.rows.schema import NumberedSchema, RowSchema
from log_tier.rows.table_index import (
    FieldCondition,
    IndexHistory,
    TableIndex,
    check_format,
    format_of,
    indexes_from_listed,
    listed_indexes,
)
from log_tier.rows.text_index import TextIndex, indexes_refusal, listed_texts, texts_from_listed
from log_tier.rows.tuple_key import pack_key

__all__ = [
    "NEWEST_SCHEMA",
    "SCHEMAS_MAX",
    "SCHEMA_NUMBER_MAX",
    "TableDefinition",
    "ValueKind",
    "says_form",
]

ValueKind = Literal["bytes", "str", "json", "row"]

SCHEMA_NUMBER_MAX: Final = (1 << 31) - 1
"""Confluent's clients read it as an int."""

NEWEST_SCHEMA: Final = SCHEMA_NUMBER_MAX + 1
"""In place of a schema's number, where the newest definition is wanted: no schema has it."""

SCHEMAS_MAX: Final = 1000
"""Of one table. Each is part of the cluster map."""

_JUDGES_MAX: Final = 256

_NUMBER_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True)
class TableDefinition:
    """What a table's keys and values are. A later definition of the same table has a higher number.

    Raises `InvalidSchema` for parts that do not fit each other; the message names the field.
    """

    number: int = 1
    key: Literal["bytes", "str"] | tuple[KeyField, ...] = "bytes"
    value: ValueKind = "bytes"
    schemas: tuple[NumberedSchema, ...] = ()
    """Of rows, the newest one last. Those without a number come last."""
    partition_by: int = 0
    """How many of the key's fields, from the first on, decide the partition. 0: all of them."""
    indexes: tuple[TableIndex, ...] = ()
    """Of rows, in the order of their numbers. Those that are being built are among them."""
    history: IndexHistory = IndexHistory()  # noqa: RUF009  (immutable)
    """How the indexes became what they are."""
    keeps: KeptHistory | None = None
    """How much of what its keys had before stays; None: nothing. The same for the table's life."""
    texts: tuple[TextIndex, ...] = ()
    """Its text indexes, in the order of their numbers, which are of one row with those of `indexes`."""

    def __post_init__(self) -> None:
        if type(self.number) is not int or not 1 <= self.number <= _NUMBER_MAX:
            _refuse("number", f"a definition has a number from 1 on, not {ascii(self.number)[:40]}")
        if self.value not in get_args(ValueKind):
            _refuse("value", f"it is one of {', '.join(get_args(ValueKind))}, not {ascii(self.value)[:40]}")
        self._check_key()
        self._check_schemas()
        for field in self.key if isinstance(self.key, tuple) else ():
            for each in self.schemas:
                if why := key_field_refusal(field, each.schema):
                    _refuse(field.name, why)
            if len({is_local_time(field, each.schema) for each in self.schemas}) > 1:
                _refuse(field.name, "it has a time zone in some of the schemas, and none in others")
        self._check_indexes()
        if not isinstance(self.keeps, KeptHistory | None):
            _refuse("keeps", f"it is a KeptHistory, not {ascii(self.keeps)[:40]}")

    def _check_key(self) -> None:
        fields = self.key if isinstance(self.key, tuple) else ()
        if not isinstance(self.key, tuple) and self.key not in ("bytes", "str"):
            _refuse("key", f"it is bytes, str or a tuple of fields, not {ascii(self.key)[:40]}")
        if isinstance(self.key, tuple) and not 1 <= len(fields) <= KEY_FIELDS_MAX:
            _refuse("key", f"it has 1 to {KEY_FIELDS_MAX} fields, not {len(fields)}")
        if not all(isinstance(each, KeyField) for each in fields):
            _refuse("key", "each of its fields is a KeyField")
        names = [each.name for each in fields]
        for name in names:
            if names.count(name) > 1:
                _refuse(name, "the key has it twice")
        if type(self.partition_by) is not int or not 0 <= self.partition_by <= len(fields):
            _refuse(
                "partition_by", f"it is 0 to {len(fields)}, the number of the key's fields, not {self.partition_by!r}"
            )

    def _check_schemas(self) -> None:
        if not isinstance(self.schemas, tuple) or not all(isinstance(each, NumberedSchema) for each in self.schemas):
            _refuse("schemas", "they are a tuple of NumberedSchema")
        if (self.value == "row") != bool(self.schemas):
            _refuse("schemas", "a table has schemas if its values are rows, and only then")
        if len(self.schemas) > SCHEMAS_MAX:
            _refuse("schemas", f"a table has at most {SCHEMAS_MAX}, not {len(self.schemas)}")
        numbers = [each.number for each in self.schemas]
        for number in numbers:
            if type(number) is not int or not 0 <= number <= SCHEMA_NUMBER_MAX:
                _refuse("schemas", f"a number is 0 to {SCHEMA_NUMBER_MAX}, not {number!r}")
        given = [number for number in numbers if number]
        if len(given) != len(set(given)) or any(numbers[len(given) :]):
            _refuse("schemas", f"each has a number of its own, and 0 comes last: {numbers[:20]}")
        if len({each.schema.text for each in self.schemas}) < len(numbers):
            _refuse("schemas", "two of them are the same")

    def has_schema(self, number: int) -> bool:
        """Whether rows may have the schema of that number. O(schemas)."""
        return any(each.number == number for each in self.schemas)

    def _check_indexes(self) -> None:
        if why := indexes_refusal(self.indexes, self.texts, self.value):
            _refuse("indexes", why)
        if self.texts and not self.history.changes:
            _refuse("indexes", "those of texts come to a table that is there")
        every: tuple[TableIndex | TextIndex, ...] = (*self.indexes, *self.texts)
        for each in every:
            each.check([numbered.schema for numbered in self.schemas])
        if why := self.history.refusal(self.number, every):
            _refuse("indexes", why)

    def index_named(self, name: str) -> TableIndex:
        """The index of that name. Raises `InvalidRequest`, which names those that there are."""
        found = next((each for each in self.indexes if each.name == name), None)
        if found is None:
            there = ", ".join(each.name for each in self.indexes) or "none"
            raise InvalidRequest(f"the table has no index {ascii(name)[:80]}; it has {there}")
        return found

    @property
    def partitioner(self) -> str:
        """The name of the function from a key to its partition."""
        if not isinstance(self.key, tuple):
            return "slot"
        return f"fields:{self.partition_by or len(self.key)}"

    @cached_property
    def judge(self) -> RowJudge:
        """Decides which keys and values fit. Equal definitions of one process have one judge, which remembers what it
        judged lately.
        """
        return _judge_of(self)

    def numbered(self, numbers: Sequence[int]) -> TableDefinition:
        """The same with these numbers of its schemas, in their order."""
        if len(numbers) != len(self.schemas):
            _refuse("schemas", f"there are {len(self.schemas)} of them and {len(numbers)} numbers")
        pairs = zip(numbers, self.schemas, strict=True)
        return replace(self, schemas=tuple(NumberedSchema(number, each.schema) for number, each in pairs))

    def with_schema(self, schema: NumberedSchema) -> TableDefinition:
        """The next definition of the table: its rows may have this schema too, which is the newest from then on.

        Raises `InvalidSchema`, which names the field, where the fields of the key would change, and for a schema that
        the table has. Whether readers of one schema read rows of another is for `evolution` to say.
        """
        known = next((each.number for each in self.schemas if each.schema == schema.schema), None)
        if known is not None:
            _refuse("schemas", f"the table has this one, as schema {known}: give it another `doc` to have it once more")
        return replace(self, number=self.number + 1, schemas=(*self.schemas, schema))

    def with_index(self, name: str, fields: Sequence[str], where: Sequence[FieldCondition] = ()) -> TableDefinition:
        """The next definition of the table, with one index more, which is being built. Raises `InvalidSchema`."""
        before = self.history if self.history.changes else IndexHistory(0, self.indexes, self._last_index)
        index = TableIndex(before.last + 1, name, tuple(fields), tuple(where))
        building = (*before.building, index.number)
        return self._with_indexes((*self.indexes, index), replace(before, last=index.number, building=building))

    def with_text(self, name: str, fields: Sequence[str]) -> TableDefinition:
        """The next definition of the table, with one text index more, which is being built. Raises `InvalidSchema`."""
        before = self.history if self.history.changes else IndexHistory(0, self.indexes, self._last_index)
        text = TextIndex(before.last + 1, name, tuple(fields))
        later = replace(before, last=text.number, building=(*before.building, text.number))
        return self._with_indexes(self.indexes, later, (*self.texts, text))

    def with_index_served(self, number: int) -> TableDefinition:
        """The next definition of the table, in which an index that was being built is in service."""
        assert number in self.history.building, f"the index {number} is not being built"
        building = tuple(each for each in self.history.building if each != number)
        return self._with_indexes(self.indexes, replace(self.history, building=building))

    def without_index(self, number: int) -> TableDefinition:
        """The next definition of the table, without one of its indexes."""
        before = self.history if self.history.changes else IndexHistory(0, self.indexes, self._last_index)
        building = tuple(each for each in before.building if each != number)
        left = tuple(each for each in self.indexes if each.number != number)
        texts = tuple(each for each in self.texts if each.number != number)
        assert (left, texts) != (self.indexes, self.texts), f"the table has no index {number}"
        return self._with_indexes(left, replace(before, building=building), texts)

    def _with_indexes(
        self, indexes: tuple[TableIndex, ...], history: IndexHistory, texts: tuple[TextIndex, ...] | None = None
    ) -> TableDefinition:
        counted, texts = replace(history, changes=history.changes + 1), self.texts if texts is None else texts
        return replace(self, number=self.number + 1, indexes=indexes, history=counted, texts=texts)

    @property
    def _last_index(self) -> int:
        return max((each.number for each in self.indexes), default=0)

    @property
    def first(self) -> TableDefinition:
        """The one with which the table began: each later one has one schema more, or other indexes."""
        if self.number == 1:
            return self
        more = self.number - 1 - self.history.changes
        indexes = self.history.first if self.history.changes else self.indexes
        schemas = self.schemas[: max(1, len(self.schemas) - more)]
        return replace(self, number=1, schemas=schemas, indexes=indexes, history=IndexHistory(), texts=())

    def continues(self, earlier: TableDefinition) -> bool:
        """Whether it is `earlier`, or a later definition of the same table. O(schemas)."""
        more, changes = self.number - earlier.number, self.history.changes - earlier.history.changes
        if more < 0 or changes < 0:
            return False
        return (
            (self.key, self.value, self.partition_by, self.keeps)
            == (earlier.key, earlier.value, earlier.partition_by, earlier.keeps)
            and len(self.schemas) == len(earlier.schemas) + more - changes
            and self.schemas[: len(earlier.schemas)] == earlier.schemas
            and self.first.indexes == earlier.first.indexes
            and (changes > 0 or (self.indexes, self.texts) == (earlier.indexes, earlier.texts))
            and (changes > 0 or self.history == earlier.history)
        )

    @property
    def text(self) -> str:
        """The document of this definition as JSON without blanks, as a barrier carries it."""
        return json.dumps(self.to_document(), separators=(",", ":"))

    def key_of(self, values: Sequence[Any]) -> bytes:
        """The key of these values, one for each of the key's fields in their order. Raises `InvalidKey`, which names
        the field. A table whose keys have no fields takes one value: bytes or str.
        """
        if not isinstance(self.key, tuple):
            return self._plain_key(values)
        if len(values) != len(self.key):
            names = ", ".join(each.name for each in self.key)
            raise InvalidKey(f"the key has the fields {names}, and {len(values)} values are given")
        return pack_key(
            *(
                keyed_value(field, value, row_type)
                for field, value, row_type in zip(self.key, values, self.key_types, strict=True)
            )
        )

    def _plain_key(self, values: Sequence[Any]) -> bytes:
        (value,) = values if len(values) == 1 else (values,)
        if not isinstance(value, bytes if self.key == "bytes" else str):
            raise InvalidKey(f"a key of this table is {self.key}, not {type(value).__name__}")
        try:
            return check_key(value if isinstance(value, bytes) else value.encode())
        except UnicodeEncodeError as error:
            raise InvalidKey(f"the key {ascii(value)[:40]} is no text: {error.reason}") from None

    @cached_property
    def key_types(self) -> tuple[AvroType | None, ...]:
        """Avro's types of the key's fields, null aside."""
        assert isinstance(self.key, tuple), f"keys of this table have no fields, they are {self.key}"
        if not self.schemas:
            return (None,) * len(self.key)
        found = [self.schemas[-1].schema.field_of(each.name) for each in self.key]
        return tuple(None if each is None else without_null(each.type)[0] for each in found)

    def to_document(self) -> dict[str, Any]:
        """This definition as values of JSON."""
        document: dict[str, Any] = {
            "v": format_of(self.indexes, self.history, self.keeps, self.texts),
            "number": self.number,
            "key": self.key
            if isinstance(self.key, str)
            else [[each.name, each.type, each.optional] for each in self.key],
            "value": self.value,
            "schemas": [[each.number, each.schema.text] for each in self.schemas],
            "partition_by": self.partition_by,
        }
        if self.indexes or self.history.changes:
            document["indexes"] = listed_indexes(self.indexes)
        if self.history.changes:
            past = self.history
            document["index_history"] = [past.changes, listed_indexes(past.first), past.last, list(past.building)]
        if self.keeps is not None:
            document["keeps"] = self.keeps.listed()
        if self.texts:
            document["texts"] = listed_texts(self.texts)
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> TableDefinition:
        """The definition of a document. Raises `UnknownFormat` for one of a newer version, for one with a field that
        this process does not know (the fold must not pass over it), and for what is no definition.
        """
        try:
            check_format(document)
            key: Any = document["key"]
            return cls(
                number=document["number"],
                key=tuple(starmap(KeyField, key)) if isinstance(key, list) else key,
                value=document["value"],
                schemas=tuple(NumberedSchema(number, RowSchema.parse(text)) for number, text in _listed(document)),
                partition_by=document["partition_by"],
                indexes=indexes_from_listed(document.get("indexes", ())),
                history=IndexHistory.from_listed(*document.get("index_history", ())),
                keeps=KeptHistory.from_listed(document["keeps"]) if "keeps" in document else None,
                texts=texts_from_listed(document.get("texts", ())),
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UnknownFormat(f"the table's definition cannot be read ({error!r}): update this process") from error


def _listed(document: Mapping[str, Any]) -> Sequence[tuple[int, str]]:
    """Numbers and texts of the schemas. Too many of them, and one that comes again, are refused before each is read."""
    listed: Sequence[tuple[int, str]] = document["schemas"]
    if len(listed) > SCHEMAS_MAX:
        _refuse("schemas", f"a table has at most {SCHEMAS_MAX}, not {len(listed)}")
    if len({text for _, text in listed}) < len(listed):
        _refuse("schemas", "two of them are the same")
    return listed


def says_form(definition: TableDefinition | None) -> bool:
    """Are keys and values something else than just any bytes? A definition may say no more than what a table keeps."""
    return definition is not None and (definition.key, definition.value) != ("bytes", "bytes")


@lru_cache(maxsize=_JUDGES_MAX)
def _judge_of(definition: TableDefinition) -> RowJudge:
    return RowJudge(definition)


def _refuse(field: str, why: str) -> NoReturn:
    raise InvalidSchema(f"{field} of the table's definition: {why}", field=field, reason=why)
