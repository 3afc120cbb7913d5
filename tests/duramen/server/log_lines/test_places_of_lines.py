"""Log lines name a partition by a value that knows its table, so that lines in JSON have both as fields."""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator
from pathlib import Path

import duramen
from duramen.server.log_lines.json_lines import JsonLines
from log_tier.model.identifiers import PartitionName

ROOT = Path(duramen.__file__).parent.parent
PACKAGES = ("log_tier", "serving_tier", "router", "duramen")
LEVELS = {"debug", "info", "warning", "error", "exception", "critical", "log"}


def messages_logged() -> Iterator[tuple[str, str]]:
    """File and line, and the message, of each call of a logger."""
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="logger" | "_logger"), attr=level), args=args):
                        if level in LEVELS:
                            texts = [each.value for each in args if isinstance(each, ast.Constant)]
                            yield f"{file.relative_to(ROOT)}:{node.lineno}", " ".join(map(str, texts))


def test_no_message_takes_a_partition_apart() -> None:
    found = list(messages_logged())
    assert len(found) > 100
    assert [place for place, message in found if "%s/%d" in message or "%s/%s" in message] == []


def test_a_name_is_two_fields() -> None:
    record = logging.makeLogRecord({"msg": "%s stopped", "args": (PartitionName("orders", 3),)})
    line = JsonLines().format(record)
    assert '"message":"orders/3 stopped"' in line
    assert '"table":"orders","partition":3' in line
