"""Which schema may follow another one: what readers of one make of rows of the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn, cast, get_args

from log_tier.model.errors import InvalidSchema
from log_tier.rows.avro.avro_types import AvroType, branch_name
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.key_fields import KeyField, without_null
from log_tier.rows.schema import RowSchema

__all__ = ["EvolutionMode", "Resolution", "check_evolution", "check_mode", "check_read"]

EvolutionMode = Literal["backward", "forward", "full", "none"]
"""backward: who has the next schema reads rows of the present one. forward: who has the present schema reads rows of
the next one. full: both. none: neither is asked for."""

_PROMOTED: Final[dict[str, tuple[str, ...]]] = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
}
"""As what else a type can be read. Avro reads bytes as string too, but not all bytes are one."""


def check_evolution(old: RowSchema, new: RowSchema, mode: EvolutionMode, key_fields: Iterable[KeyField] = ()) -> None:
    """Raise `InvalidSchema`, with the field and the reason, where `new` may not follow `old`.

    Fields of the key stay as they are in any mode: they cannot go, and neither their name nor their type can change.
    For the others Avro's rules of resolution hold (aliases and promotions too); a known logical type stays as it is,
    since the same number would mean something else. O(size of both).
    """
    check_mode(mode)
    for key in key_fields:
        _check_key_field(key.name, old, new)
    if mode in ("backward", "full"):
        check_read(new, old, "the next schema", "the present one")
    if mode in ("forward", "full"):
        check_read(old, new, "the present schema", "the next one")


def check_read(reader: RowSchema, writer: RowSchema, with_: str, of: str) -> None:
    """Raise `InvalidSchema`, with the field and the reason, where rows that `writer` wrote are not read with `reader`.
    `with_` and `of` are what the reason calls them. O(size of both).
    """
    Resolution(reader, writer, with_, of).check()


def check_mode(mode: object) -> EvolutionMode:
    """Raises `InvalidSchema` for what is no mode."""
    found = next((each for each in get_args(EvolutionMode) if each == mode), None)
    if found is None:
        _refuse("", f"compatibility is one of {', '.join(get_args(EvolutionMode))}, not {ascii(mode)[:40]}")
    return cast("EvolutionMode", found)


def _refuse(path: str, why: str) -> NoReturn:
    where = f"the field {path}" if path else "the schema"
    raise InvalidSchema(f"{where}: {why}", field=path, reason=why)


def _check_key_field(name: str, old: RowSchema, new: RowSchema) -> None:
    found = new.field_of(name)
    if found is None:
        _refuse(name, "it is a field of the key, which can neither go nor be renamed")
    before = old.field_of(name)
    if before is not None and _in_key(before.type, old) != _in_key(found.type, new):
        _refuse(name, f"it is a field of the key, whose type stays: {_shown(before.type)}, not {_shown(found.type)}")


def _in_key(type_: AvroType, schema: RowSchema) -> tuple[Any, ...]:
    """What of a type decides about the element of a key."""
    plain, optional = without_null(type_)
    found: Any = schema.named.get(plain, plain) if isinstance(plain, str) else plain
    return _kind_of(found), logical_of(found), optional, found.get("size") if isinstance(found, dict) else None


def _kind_of(found: Any) -> str:
    """What Avro calls a type whose name has been looked up."""
    if isinstance(found, list):
        return "union"
    return str(found if isinstance(found, str) else found["type"])


def _shown(type_: AvroType) -> str:
    if isinstance(type_, list):
        return f"a union of {', '.join(map(_shown, type_))}"[:200]
    return str(type_.get("logicalType", branch_name(type_)) if isinstance(type_, dict) else type_)


def _short(name: str) -> str:
    return name.rpartition(".")[2]


@dataclass(slots=True)
class Resolution:
    """Whether rows that one schema wrote are read with another."""

    reader: RowSchema
    writer: RowSchema
    with_: str
    of: str
    places: dict[int, dict[Any, list[int]]] = field(default_factory=dict)
    """Of the reader's unions, each by its id: both schemas live as long as this."""
    agreed: dict[tuple[str, str], None] = field(default_factory=dict)
    """Named types that agree, or are being compared: a record may contain itself."""
    parted: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)
    """Those that do not."""

    def check(self) -> None:
        """Raise `InvalidSchema`, with the field and the reason, where rows of the writer are not read."""
        why = self._refusal(self.reader.name, self.writer.name, "")
        if why is not None:
            _refuse(*why)

    def reads(self, reader: AvroType, writer: AvroType) -> bool:
        """Whether each value of a type of the writer's schema is read as one of the reader's."""
        return self._refusal(reader, writer, "") is None

    def _refusal(self, reader: AvroType, writer: AvroType, path: str) -> tuple[str, str] | None:
        """Where and why a value is not read. None: it is."""
        if isinstance(writer, list):
            refusals = (self._refusal(reader, each, path) for each in writer)
            return next((why for why in refusals if why is not None), None)
        if isinstance(reader, list):
            return self._into_union(reader, writer, path)
        read = self.reader.named.get(reader, reader) if isinstance(reader, str) else reader
        written = self.writer.named.get(writer, writer) if isinstance(writer, str) else writer
        return self._of_plain(read, written, path)

    def _into_union(self, union: list[AvroType], writer: AvroType, path: str) -> tuple[str, str] | None:
        """A union is read by the first of its types that reads the value."""
        written = self.writer.named.get(writer, writer) if isinstance(writer, str) else writer
        heads = {_short(branch_name(written)), _kind_of(written), *_PROMOTED.get(_kind_of(written), ())}
        full = written.get("name") if isinstance(written, dict) else None
        places = self._places(union)
        first: tuple[str, str] | None = None
        for place in sorted({place for head in (*heads, full) for place in places.get(head, ())}):
            why = self._refusal(union[place], writer, path)
            if why is None:
                return None
            first = first or why
        return first or (path, f"{self.with_} has no {_shown(writer)} in its union, and rows of {self.of} have one")

    def _places(self, union: list[AvroType]) -> dict[Any, list[int]]:
        """Where in a union a type of that name or alias is."""
        found = self.places.get(id(union))
        if found is None:
            found = self.places[id(union)] = {}
            for place, each in enumerate(union):
                read: Any = self.reader.named.get(each, each) if isinstance(each, str) else each
                aliases = read.get("aliases", ()) if isinstance(read, dict) else ()
                for name in (_short(branch_name(each)), *aliases):
                    found.setdefault(name, []).append(place)
        return found

    def _has_alias(self, reader: AvroType, written: Any) -> bool:
        read: Any = self.reader.named.get(reader, reader) if isinstance(reader, str) else reader
        return isinstance(read, dict) and isinstance(written, dict) and written.get("name") in read.get("aliases", ())

    def _of_plain(self, read: Any, written: Any, path: str) -> tuple[str, str] | None:
        kind = _kind_of(written)
        if logical_of(read) != logical_of(written):
            return path, f"{_shown(written)} of {self.of} means something else than {_shown(read)} of {self.with_}"
        if _kind_of(read) != kind:
            if _kind_of(read) in _PROMOTED.get(kind, ()):
                return None
            return path, f"{_shown(written)} of {self.of} is not read as {_shown(read)} of {self.with_}"
        if logical_of(read) == "decimal":
            why = self._of_decimal(read, written)
            if why is not None:
                return path, why
        if kind == "array":
            return self._refusal(read["items"], written["items"], f"{path}[]")
        if kind == "map":
            return self._refusal(read["values"], written["values"], f"{path}[]")
        return self._of_named(read, written, path) if kind in ("record", "enum", "fixed") else None

    def _of_decimal(self, read: Any, written: Any) -> str | None:
        if read.get("scale", 0) != written.get("scale", 0):
            return f"the scale of a decimal stays: {written.get('scale', 0)}, not {read.get('scale', 0)}"
        if read["precision"] < written["precision"]:
            return f"{self.with_} has fewer digits than decimals of {self.of}: {read['precision']}"
        return None

    def _of_named(self, read: Any, written: Any, path: str) -> tuple[str, str] | None:
        pair = (read["name"], written["name"])
        if pair in self.agreed or pair in self.parted:
            return self.parted.get(pair)
        before = len(self.agreed)
        self.agreed[pair] = None
        why = self._of_new_pair(read, written, path)
        if why is not None:
            # What was found to agree since then may have relied on it. Only unions go on from here.
            for each in list(self.agreed)[before:]:
                del self.agreed[each]
            self.parted[pair] = why
        return why

    def _of_new_pair(self, read: Any, written: Any, path: str) -> tuple[str, str] | None:
        ours, theirs = read["name"], written["name"]
        if _short(ours) != _short(theirs) and not self._has_alias(read, written):
            return path, f"{ours} of {self.with_} is not {theirs} of {self.of}: give it that name as an alias"
        if read["type"] == "fixed" and read["size"] != written["size"]:
            return path, f"the size of a fixed stays: {written['size']} bytes, not {read['size']}"
        if read["type"] == "enum" and "default" not in read:
            known = set(read["symbols"])
            gone = next((symbol for symbol in written["symbols"] if symbol not in known), None)
            if gone is not None:
                return (
                    path,
                    f"{self.with_} does not have the symbol {gone} of {self.of}, and no default among its symbols",
                )
        return self._of_fields(read, written, path) if read["type"] == "record" else None

    def _of_fields(self, read: Any, written: Any, path: str) -> tuple[str, str] | None:
        types = {each["name"]: each["type"] for each in written["fields"]}
        for each in read["fields"]:
            inside = f"{path}.{each['name']}" if path else each["name"]
            name = next((name for name in (each["name"], *each.get("aliases", ())) if name in types), None)
            if name is None:
                if "default" not in each:
                    return inside, f"rows of {self.of} do not have it, and {self.with_} has no default for it"
                continue
            why = self._refusal(each["type"], types[name], inside)
            if why is not None:
                return why
        return None
