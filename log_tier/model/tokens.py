"""Causal tokens: what a client has seen, as text that any process can carry to any other.

A token maps tables to partitions to the highest offset seen. Merging two is taking the maximum of each entry, so
merging is idempotent, commutative and associative, and a token can travel by any road, twice, and in any order.

Text form: `d1.` + URL-safe base64 without padding of

    kind      1 byte: 0 a write's or a watch's token, 1 a whole session's
    tables    varint, then for each: table id (16 bytes), entries varint, then (partition varint, offset + 1 varint)*
    more      what a newer version added, which this one ignores
    check     4 bytes: CRC-32 of all before, so that a token cut by a copy and paste is refused and not half believed

A **session** token may cover many tables and says nothing about one that it does not name. Any other token names the
tables it is about, and using it on another table is an error: that is nearly always a mistake, and answering as if
nothing had been asked would hide it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

from log_tier.model.errors import InvalidToken
from log_tier.model.identifiers import Offset, Partition, TableId, table_id_from_bytes, table_id_to_bytes

__all__ = ["TOKEN_TEXT_MAX", "Token"]

_PREFIX: Final = "d1."

_NEWER: Final = re.compile(r"d([2-9]|[1-9][0-9]+)\.")

_POSITION: Final = 0
_SESSION: Final = 1
_KINDS: Final = (_POSITION, _SESSION)

# 1024 partitions of one table are at most 13 KiB of entries; ten such tables still fit, and a header of a web request
# does not want more.
TOKEN_TEXT_MAX: Final = 256 * 1024


def _varint(number: int, into: bytearray) -> None:
    while number > 127:
        into.append(number & 127 | 128)
        number >>= 7
    into.append(number)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise InvalidToken("the token ends too early: was it cut while copying?")
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 127) << shift
            if byte < 128:
                return number
            shift += 7
            if shift > 63:
                raise InvalidToken("the token holds a number beyond 64 bits")


@dataclass(frozen=True, slots=True)
class Token:
    """The offsets that a client has seen: `tables[table_id][partition]` is the highest one of a partition."""

    tables: Mapping[TableId, Mapping[Partition, Offset]] = field(default_factory=dict)
    session: bool = False

    @classmethod
    def of(cls, table_id: TableId, partition: Partition, offset: Offset) -> Token:
        """The token of one record."""
        return cls({table_id: {partition: offset}})

    def offsets(self, table_id: TableId, *, table_name: str = "") -> Mapping[Partition, Offset]:
        """The offsets that a read of one table must have seen, by partition.

        Raises `InvalidToken` where it is about other tables only (a dropped table's, or a mix-up).
        """
        found = self.tables.get(table_id)
        if found is not None:
            return found
        if self.session or not self.tables:
            return {}
        other = next(iter(self.tables))
        raise InvalidToken(
            f"the token is of table {other}, and {table_name or 'this table'} is {table_id}: "
            "it comes from another table, or from one that was dropped and created again; read without it",
            token_table=other,
            table=table_id,
        )

    def merge(self, other: Token) -> Token:
        """The maximum of both, entry by entry. O(entries)."""
        merged = {table: dict(offsets) for table, offsets in self.tables.items()}
        for table, offsets in other.tables.items():
            mine = merged.setdefault(table, {})
            for partition, offset in offsets.items():
                if partition not in mine or offset > mine[partition]:
                    mine[partition] = offset
        return Token(merged, session=self.session or other.session)

    def __str__(self) -> str:
        body = bytearray([_SESSION if self.session else _POSITION])
        _varint(len(self.tables), body)
        for table, offsets in sorted(self.tables.items()):
            body += table_id_to_bytes(table)
            _varint(len(offsets), body)
            for partition, offset in sorted(offsets.items()):
                _varint(partition, body)
                _varint(offset + 1, body)
        body += crc32(body).to_bytes(4, "little")
        return _PREFIX + base64.urlsafe_b64encode(body).rstrip(b"=").decode("ascii")

    @classmethod
    def parse(cls, text: str | Token) -> Token:
        """Read a token's text (a `Token` passes through). Raises `InvalidToken` with what is wrong."""
        if isinstance(text, Token):
            return text
        if not isinstance(text, str):
            raise InvalidToken(f"a token is text, this is {type(text).__name__}")
        if _NEWER.match(text):
            raise InvalidToken(
                f"{text[:40]!r} is a token of a newer Duramen, this process reads {_PREFIX!r}: update it"
            )
        if not text.startswith(_PREFIX) or len(text) > TOKEN_TEXT_MAX:
            # Not shown: somebody may have given the secret that proves a user.
            raise InvalidToken(
                f"a text of length {len(text)} is no token: tokens begin with {_PREFIX!r} and have at most "
                f"{TOKEN_TEXT_MAX} characters"
            )
        encoded = text[len(_PREFIX) :]
        try:
            raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError) as error:
            raise InvalidToken(f"{text[:40]!r} is no token: {error}") from error
        if len(raw) < 6 or crc32(raw[:-4]) != int.from_bytes(raw[-4:], "little"):
            raise InvalidToken(f"{text[:40]!r} is no whole token: its check does not hold; was it cut while copying?")
        reader = _Reader(raw[:-4])
        kind = reader.take(1)[0]
        if kind not in _KINDS:
            raise InvalidToken(f"{text[:40]!r} is a token of kind {kind}, this process knows 0 and 1: update it")
        session = kind == _SESSION
        tables: dict[TableId, dict[Partition, Offset]] = {}
        for _ in range(reader.varint()):
            table = table_id_from_bytes(reader.take(16))
            tables[table] = {Partition(reader.varint()): Offset(reader.varint() - 1) for _ in range(reader.varint())}
        return cls(tables, session=session)
