"""Readers of rows as one generated function, since a call for each field costs more than the reading.

The reader of a row's key accepts what it has surely seen to fit: texts of less than 64 bytes, numbers of usual sizes,
times of these centuries. Wherever it is not sure it leaves the row to the complete reader, from the beginning. So it
has no errors, no limits and no places of its own, and what fits is decided in one place.

The reader of a row's entries gets rows that fit. It passes over fields that no index has without a look at what they
hold, and ends behind the last one that an index has. Of a row that does not fit it may make entries all the same.

    value, end, at   the bytes of the row, their end, and the place in them
    room             what the row may have inside (`RowRoom`)
    n, m, t          the numbers and the text that are being read
    k0, k1, …        the elements of the key, or those that indexes have
    p0, p1, …        the numbers of the indexes
    s0, e0, …        from where, and to where, elements are that conditions of indexes ask for
    complete          the reader that decides instead
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from log_tier.rows.avro.avro_types import AvroType, NamedTypes
from log_tier.rows.avro.logical_types import logical_of
from log_tier.rows.avro.row_reader import ReaderTree
from log_tier.rows.avro.row_room import UNUSED_ROOM, RowRoom
from log_tier.rows.avro.varints import Misfit, skip_int, skip_long
from log_tier.rows.elements import encode_element
from log_tier.rows.key_readers import key_reader
from log_tier.rows.schema import RowSchema
from log_tier.rows.table_index import NAN, EntryForm, FieldPath

__all__ = ["EntriesReader", "RowReader", "paths_of", "quick_entries", "quick_reader"]

RowReader = Callable[[bytes, int], bytes]
"""From a value and the place of its record: its key, empty where keys have no fields. Raises `Misfit`."""

EntriesReader = Callable[[bytes, int, bytes], list[bytes]]
"""From a value that fits, the place of its record and the row's key: the row's entry in each index, empty in one that
has none of it."""

_DOUBT: Final = "    return complete(value, start)"
_DOUBT_OF_ENTRIES: Final = "    return complete(value, start, key)"
_FIELDS_MAX: Final = 64
"""Of a record that gets a function. A wider one stays with the complete reader."""
_LINES_MAX: Final = 128
"""Fields behind so many are called: to compile more of them would hold up a server's loop."""
_SYMBOLS_MAX: Final = 64
_BRANCHES_MAX: Final = 4
_PATH_MAX: Final = 4
"""Names of a field inside others, for which there are lines inside lines."""

_TEXT: Final = [
    "n = value[at]",
    "if n & 129:",  # of more than 63 bytes, or fewer than none
    _DOUBT,
    "at += 1",
    "t = value[at : at + (n >> 1)]",
    "if not t.isascii(): t.decode()",
    "at += n >> 1",
]
_PLAIN: Final[dict[str, list[str]]] = {
    "null": [],
    "boolean": ["if value[at] > 1:", _DOUBT, "at += 1"],
    "int": ["n = value[at]", "at += 1", "if n > 127: at = skip_int(value, at)"],
    "long": ["n = value[at]", "at += 1", "if n > 127: at = skip_long(value, at)"],
    "float": ["at += 4"],
    "double": ["at += 8"],
    "string": _TEXT,
    "bytes": ["n = value[at]", "if n & 129:", _DOUBT, "at += 1 + (n >> 1)"],
}

_SMALL: Final = tuple(encode_element((n >> 1) ^ -(n & 1)) for n in range(128))
"""The elements of integers of one byte of Avro."""

_KEY_TEXT: Final = [*_TEXT, "if 0 in t:", _DOUBT, "{k} = b'\\2' + t + b'\\0'"]
_KEY_INTEGER: Final = [
    "n = value[at]",
    "at += 1",
    "if n < 128: {k} = SMALL[n]",
    "else:",
    "    m = value[at]",
    "    at += 1",
    "    if m < 128: n = n & 127 | m << 7",
    "    else:",
    "        t = value[at]",
    "        at += 1",
    "        if t > 127:",
    f"        {_DOUBT}",
    "        n = n & 127 | (m & 127) << 7 | t << 14",
    "    if n & 1:",
    f"    {_DOUBT}",
    "    n >>= 1",
    "    m = (n.bit_length() + 7) >> 3",
    "    {k} = (n + (20 + m << 8 * m)).to_bytes(m + 1)",
]
# Avro's integer of 8 bytes, all at once: pieces of 7 bits become such of 14, of 28, and one of 56.
_KEY_MICROS: Final = [
    "n = U64(value, at)[0]",
    "if n & 0x8080808080808080 == 0x80808080808080:",
    "    n = n & 0x7F007F007F007F | (n & 0x7F007F007F007F00) >> 1",
    "    n = n & 0x3FFF00003FFF | (n & 0x3FFF00003FFF0000) >> 2",
    "    n = n & 0xFFFFFFF | n >> 4 & 0xFFFFFFF0000000",
    "    if n & 1 or n > SURE:",
    f"    {_DOUBT}",
    "    {k} = ((n >> 1) + {first}).to_bytes(9)",
    "    at += 8",
    "else: at, {k} = {read}(value, at, end)",
]
_ENTRY_TEXT: Final = [
    "n = value[at]",
    "at += 1",
    "if n > 127:",
    "    m = value[at]",
    "    at += 1",
    "    if m > 127:",
    f"    {_DOUBT}",
    "    n = n & 127 | m << 7",
    "if n & 1:",
    _DOUBT,
    "n = at + (n >> 1)",
    "t = value[at:n]",
    "if not t.isascii(): t.decode()",
    "if 0 in t: t = t.replace(b'\\0', b'\\0\\xff')",
    "{k} = b'\\2' + t + b'\\0'",
    "at = n",
]
# Bits of a double that sort: with the sign turned, or all of them. -0.0 and NaN go to the reader.
_ENTRY_DOUBLE: Final = [
    "n = U64(value, at)[0]",
    f"if n <= {0x7FF << 52}:",
    f"    {{k}} = (n + {0x21 << 64 | 1 << 63}).to_bytes(9)",
    "    at += 8",
    f"elif {1 << 63} < n <= {0xFFF << 52}:",
    f"    {{k}} = ({(0x22 << 64) - 1} - n).to_bytes(9)",
    "    at += 8",
    "else: at, {k} = {read}(value, at, end)",
]
_ENTRY_BOOLEAN: Final = ["n = value[at]", "if n > 1:", _DOUBT, "{k} = b'\\x27' if n else b'\\x26'", "at += 1"]

_PASS_SIZED: Final = ["n = value[at]", "if n & 129: at = {read}(value, at, end, room)", "else: at += 1 + (n >> 1)"]
_PASS_LONG: Final = ["n = value[at]", "at += 1", "if n > 127: at = skip_long(value, at)"]
_PASS_MICROS: Final = [
    "if at + 8 <= end and U64(value, at)[0] & 0x8080808080808080 == 0x80808080808080: at += 8",
    "else: at = {read}(value, at, end, room)",
]
_PASSED: Final[dict[str, list[str]]] = {
    **_PLAIN,
    "boolean": ["at += 1"],
    "long": _PASS_LONG,
    "string": _PASS_SIZED,
    "bytes": _PASS_SIZED,
    "enum": ["n = value[at]", "if n > 127: at = {read}(value, at, end, room)", "else: at += 1"],
}
"""Lines that pass over a value that fits."""

_SURE: Final = 2 * 253_402_300_799_999_999
"""The last microsecond of the year 9999, zigzag."""

_KNOWN: Final[dict[str, Any]] = {
    "skip_int": skip_int,
    "skip_long": skip_long,
    "RowRoom": RowRoom,
    "UNUSED_ROOM": UNUSED_ROOM,
    "SMALL": _SMALL,
    "SURE": _SURE,
    "U64": struct.Struct("<Q").unpack_from,
    "Doubts": (IndexError, ValueError, Misfit, struct.error),  # a UnicodeDecodeError is a ValueError
}


def quick_reader(schema: RowSchema, key_names: Sequence[str], complete: RowReader) -> RowReader:
    """A reader that returns what `complete` does, of the same schema and fields of a key. Some 2 µs for a row of 8
    plain fields; 0.5 ms to make.
    """
    if len(schema.fields) > _FIELDS_MAX:
        return complete
    tree = ReaderTree(schema.named)
    known: dict[str, Any] = {**_KNOWN, "complete": complete}
    lines = []
    for number, field in enumerate(schema.fields):
        if field.name in key_names:
            read_key = f"read_key{number}"
            known[read_key] = key_reader(field.type, schema.named)
            lines += _key_lines(field.type, schema.named, f"k{key_names.index(field.name)}", read_key)
        elif (read := tree.reader(field.type)) is not None:
            known[f"read{number}"] = read
            plain = _plain_lines(field.type, schema.named) if len(lines) < _LINES_MAX else None
            lines += [f"at = read{number}(value, at, end, room)"] if plain is None else plain
    key = " + ".join(f"k{number}" for number in range(len(key_names))) or "b''"
    source = [
        "def read_row(value, start):",
        "    at, end = start, len(value)",
        f"    room = {'RowRoom()' if tree.takes_room else 'UNUSED_ROOM'}",
        "    try:",
        *(f"        {line}" for line in lines or ["pass"]),
        "    except Doubts:",
        f"    {_DOUBT}",
        "    if at != end:",
        f"    {_DOUBT}",
        f"    return {key}",
    ]
    exec("\n".join(source), known)
    return known["read_row"]  # type: ignore[no-any-return]


def _plain_lines(type_: AvroType, named: NamedTypes) -> list[str] | None:
    """None: there are no few lines for a value of this type."""
    if isinstance(type_, list):
        branches = [_plain_lines(each, named) for each in type_]
        return list(_union(branches)) if len(branches) <= _BRANCHES_MAX and None not in branches else None
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    kind = found if isinstance(found, str) else found["type"]
    if logical_of(found) is not None:
        return None
    if kind == "fixed":
        return [f"at += {found['size']}"]
    if kind == "enum":
        return ["n = value[at]", f"if n & 1 or n >= {2 * min(len(found['symbols']), _SYMBOLS_MAX)}:", _DOUBT, "at += 1"]
    return _PLAIN.get(kind)


def _union(branches: Sequence[list[str] | None]) -> Iterator[str]:
    yield from ("n = value[at]", "at += 1")
    for number, lines in enumerate(branches):
        yield f"{'elif' if number else 'if'} n == {2 * number}:"
        yield from (f"    {line}" for line in lines or ["pass"])
    yield from ("else:", _DOUBT)


def _key_lines(type_: AvroType, named: NamedTypes, k: str, read: str) -> list[str]:
    """Lines that pass over a field of the key, and keep its element."""
    found: Any = named.get(type_, type_) if isinstance(type_, str) else type_
    logical = logical_of(found)
    if found == "string":
        lines = _KEY_TEXT
    elif found in ("int", "long"):
        lines = _KEY_INTEGER
    elif logical in ("timestamp-micros", "local-timestamp-micros"):
        lines = _KEY_MICROS
    else:
        return [f"at, {k} = {read}(value, at, end)"]
    first = ((0x42 if logical == "local-timestamp-micros" else 0x41) << 64) + (1 << 63)
    return [line.format(k=k, read=read, first=first) for line in lines]


def quick_entries(schema: RowSchema, indexes: Sequence[EntryForm], complete: EntriesReader) -> EntriesReader:
    """A reader that returns what `complete` does of a row that fits. Some 0.1 µs for a field that is passed over and
    0.3 µs for one of an index; 0.5 ms to make.
    """
    paths = paths_of(indexes)
    names = {path[0] for path in paths}
    places = [place for place, field in enumerate(schema.fields) if field.name in names]
    if not places or places[-1] >= _FIELDS_MAX or max(map(len, paths)) > _PATH_MAX:
        return complete
    made = _EntryLines(schema, paths)
    for field in schema.fields[: places[-1] + 1]:
        made.lines += made.of(field.type, (field.name,))
    if made.fields > _FIELDS_MAX:
        return complete
    known = {**_KNOWN, **made.known, "complete": complete}
    entries = []
    for number, form in enumerate(indexes):
        known[f"p{number}"] = form.number
        entry = " + ".join((f"p{number}", *(made.elements[path] for path in form.paths), "key"))
        holds = []
        for path, start, end in form.where:
            bound = len(known)
            known[f"s{bound}"], known[f"e{bound}"] = start, end
            holds.append(f"s{bound} <= {made.elements[path]} < e{bound}")
        entries.append(f"{entry} if {' and '.join(holds)} else b''" if holds else entry)
    source = [
        "def read_entries(value, start, key):",
        "    at, end = start, len(value)",
        f"    room = {'RowRoom()' if made.tree.takes_room else 'UNUSED_ROOM'}",
        "    try:",
        *(f"        {line}" for line in made.lines),
        "    except Doubts:",
        f"    {_DOUBT}",
        "    if at > end:",
        f"    {_DOUBT}",
        f"    return [{', '.join(entries)}]",
    ]
    exec("\n".join(source).replace(_DOUBT, _DOUBT_OF_ENTRIES), known)
    return known["read_entries"]  # type: ignore[no-any-return]


def paths_of(indexes: Sequence[EntryForm]) -> tuple[FieldPath, ...]:
    """What is read of a row for its entries, each path once."""
    sorted_by = [path for form in indexes for path in form.paths]
    asked_for = [path for form in indexes for path, _, _ in form.where]
    return tuple(dict.fromkeys((*sorted_by, *asked_for)))


class _EntryLines:
    """Makes the lines of one reader of entries."""

    def __init__(self, schema: RowSchema, paths: tuple[FieldPath, ...]) -> None:
        self.elements = {path: f"k{number}" for number, path in enumerate(paths)}
        self.tree = ReaderTree(schema.named)
        self.known: dict[str, Any] = {}
        """The readers that lines call."""
        self.lines: list[str] = []
        """Those of the fields so far."""
        self.fields = 0
        """How many they are, those inside others included."""
        self._named = schema.named

    def of(self, type_: AvroType, path: FieldPath) -> list[str]:
        """Lines that pass over a field, and keep the elements of what indexes have of it."""
        self.fields += 1
        k = self.elements.get(path)
        if k is not None:
            return self._kept(type_, k)
        inner = [k for longer, k in self.elements.items() if longer[: len(path)] == path]
        if not inner:
            return self._passed(type_)
        if isinstance(type_, list):
            nothing = [f"{k} = b'\\0'" for k in inner]
            return list(_union([nothing if each == "null" else self.of(each, path) for each in type_]))
        record: Any = self._named.get(type_, type_) if isinstance(type_, str) else type_
        return [line for each in record["fields"] for line in self.of(each["type"], (*path, each["name"]))]

    def _call(self, reader: Any) -> str:
        name = f"read{len(self.known)}"
        self.known[name] = reader
        return name

    def _kept(self, type_: AvroType, k: str) -> list[str]:
        if isinstance(type_, list) and len(type_) <= _BRANCHES_MAX:
            return list(_union([[f"{k} = b'\\0'"] if each == "null" else self._kept(each, k) for each in type_]))
        read = self._call(key_reader(type_, self._named, NAN))
        if len(self.lines) >= _LINES_MAX:
            return [f"at, {k} = {read}(value, at, end)"]
        lines = {"string": _ENTRY_TEXT, "double": _ENTRY_DOUBLE, "boolean": _ENTRY_BOOLEAN}.get(str(type_))
        if lines is None:
            return _key_lines(type_, self._named, k, read)
        return [line.format(k=k, read=read) for line in lines]

    def _passed(self, type_: AvroType) -> list[str]:
        reader = self.tree.reader(type_)
        if reader is None:
            return []
        if isinstance(type_, list) and len(type_) <= _BRANCHES_MAX:
            return list(_union([self._passed(each) for each in type_]))
        found: Any = self._named.get(type_, type_) if isinstance(type_, str) else type_
        kind = found if isinstance(found, str) else found["type"] if isinstance(found, dict) else "union"
        if kind == "fixed":
            return [f"at += {found['size']}"]
        read = self._call(reader)
        lines = _PASS_MICROS if (logical_of(found) or "").endswith("timestamp-micros") else _PASSED.get(kind)
        if lines is None or len(self.lines) >= _LINES_MAX:
            return [f"at = {read}(value, at, end, room)"]
        return [line.format(read=read) for line in lines]
