"""Which ordered indexes a replica's file does not hold whole: those that are being built, and those that were dropped.
Pure.

An index that a barrier brings has an entry of each row that changes from there on. The rows of before go in later, in
the order of their keys; how far they are is written in the transaction that puts them in. What the fold does to a row
that is not in yet is right all the same: it removes an entry that is not there, or makes the one that the building
would make. So at any time the entries are some of the right ones, and none else; behind the last key they are all.

A barrier that puts an index into service is passed with all of its entries, or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from log_tier.rows.definition import TableDefinition

__all__ = ["NO_BUILDS", "IndexBuilds"]


@dataclass(frozen=True, slots=True)
class IndexBuilds:
    """What is to be done to the entries of one file."""

    building: Mapping[int, bytes] = field(default_factory=lambda: MappingProxyType({}))
    """By the number of the index: the last key whose row is in; empty: none is."""
    dropped: tuple[int, ...] = ()
    """The numbers of indexes that are gone, and of whose entries some may be left."""

    def __bool__(self) -> bool:
        return bool(self.building or self.dropped)

    def after(self, before: TableDefinition | None, later: TableDefinition | None) -> IndexBuilds:
        """What is to be done where a file has `later` in place of `before`."""
        had = {each.number for each in (() if before is None else before.indexes)}
        has = {each.number for each in (() if later is None else later.indexes)}
        if had == has:
            return self
        building = {number: key for number, key in self.building.items() if number in has}
        building.update(dict.fromkeys(sorted(has - had), b""))
        return IndexBuilds(building, (*self.dropped, *sorted(had - has)))

    def owed(self, definition: TableDefinition | None) -> list[int]:
        """The indexes that a file with this definition has to hold whole, and does not."""
        being_built = () if definition is None else definition.history.building
        return [number for number in self.building if number not in being_built]

    def at(self, number: int, key: bytes | None) -> IndexBuilds:
        """The rows up to `key` are in an index; None: all of them are."""
        building = {each: self.building[each] for each in self.building if each != number}
        return replace(self, building=building if key is None else {**building, number: key})

    def without(self, number: int) -> IndexBuilds:
        """Of a dropped index nothing is left."""
        return replace(self, dropped=tuple(each for each in self.dropped if each != number))

    def pack(self) -> bytes:
        """The row `builds` of `meta`."""
        building = {str(number): key.hex() for number, key in self.building.items()}
        return json.dumps({"building": building, "dropped": self.dropped}, separators=(",", ":")).encode()

    @classmethod
    def unpack(cls, row: bytes | None) -> IndexBuilds:
        """Read it; there is none where nothing is to be done. Raises `ValueError` for what is no such row."""
        if row is None:
            return NO_BUILDS
        try:
            document = json.loads(row)
            building = {int(number): bytes.fromhex(key) for number, key in document["building"].items()}
            return cls(building, tuple(map(int, document["dropped"])))
        except (LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise ValueError(f"what is to be built cannot be read: {error!r}") from error


NO_BUILDS: Final = IndexBuilds()
