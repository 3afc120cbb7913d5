"""An ordered index as `create_table` is asked for it: fields, or fields and which rows it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from log_tier.model.errors import InvalidRequest

__all__ = ["IndexFields", "OrderedIndex"]


class OrderedIndex:
    """An ordered index, in `indexes=` of `create_table`, that may have some rows only, or be unique:

        indexes={"late": duramen.OrderedIndex("time_hour", where={"dep_delay": (60, None)})}

    It sorts by `fields`, in this order. It has those rows alone that meet all conditions of `where`, each a value or a
    range (start, end) of a field, in the form of `find`; None: all rows. Whether rows have these fields, `create_table`
    says. Raises `InvalidRequest` for conditions that are no mapping.

    `unique`: no two of its rows have the same values of the fields. A write that would give a second row the same ones
    is rejected by the log's order, with `UniqueViolation`, which names the row that has them. A row in which one of the
    fields is null conflicts with none, and one that expires or is deleted frees its values. What lies in one partition
    is compared: the table has one, or the fields that decide the partition (`partition_by`) are among those of the
    index.

        indexes={"by_email": duramen.OrderedIndex("tenant", "email", unique=True)}
    """

    __slots__ = ("fields", "unique", "where")

    def __init__(self, *fields: str, where: Mapping[str, Any] | None = None, unique: bool = False) -> None:
        if not isinstance(where, Mapping | None):
            what = f'where= maps fields to values or ranges, as {{"gate": None}}, not {ascii(where)[:60]}'
            raise InvalidRequest(what)
        self.fields = fields
        self.where = dict(where or {})
        self.unique = bool(unique)

    def __repr__(self) -> str:
        where = [f"where={self.where!r}"] if self.where else []
        unique = ["unique=True"] if self.unique else []
        return f"OrderedIndex({', '.join([*map(repr, self.fields), *where, *unique])})"


IndexFields: TypeAlias = str | Sequence[str] | OrderedIndex
"""What an index is, in `create_table`: the field or the fields that it sorts by, or an `OrderedIndex`."""
