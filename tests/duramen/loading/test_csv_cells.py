"""Cells of a CSV by the types of a schema."""

from __future__ import annotations

from typing import Any

import pytest

from duramen.loading.csv_cells import cell_form, quoted_empties


@pytest.mark.parametrize(
    ("type_", "cell", "json"),
    [
        ("long", "7", "7"),
        ("long", "007", '"007"'),
        ("long", "", '""'),
        (["null", "long"], "", "null"),
        ("double", "1e5", "1e5"),
        ("double", "NaN", '"NaN"'),
        ("boolean", "True", "true"),
        ("boolean", "1", '"1"'),
        ("string", "", '""'),
        ("string", 'a"b', '"a\\"b"'),
        ({"type": "int", "logicalType": "date"}, "2026-11-27", '"2026-11-27"'),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "1.50", '"1.50"'),
        ({"type": "array", "items": "int"}, "[1, 2]", "[1, 2]"),
        ({"type": "array", "items": "int"}, '1],"k":[2', '"1],\\"k\\":[2"'),
        (["null", "long", "string"], '{"long":5}', '{"long":5}'),
        (["null", "long", "string"], "", "null"),
        ("null", "", "null"),
    ],
)
def test_a_cell_is_json_by_the_type_of_its_field(type_: Any, cell: str, json: str) -> None:
    assert cell_form(type_, {}).of_cell(cell) == json


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ('"",x,""\r\n', {0, 2}),
        (",,\n", set()),
        ('"a,"",b","",c', {1}),
        ('"""",""', {1}),
        ('","",",x', set()),
        ('x,"', set()),
        ('"",""', {0, 1}),
    ],
)
def test_cells_that_are_empty_and_quoted(line: str, cells: set[int]) -> None:
    assert quoted_empties([line], ",") == cells
    assert quoted_empties([line[:3], line[3:]], ",") == cells
