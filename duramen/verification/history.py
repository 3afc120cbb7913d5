"""The history: every call and its reply. Its form on disk is JSON lines (docs/FORMATS.md), version 2."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.private_files import private_opener

__all__ = [
    "HISTORY_VERSION",
    "BuiltPart",
    "Call",
    "CallResult",
    "History",
    "LogRecord",
    "read_history",
    "write_history",
]

HISTORY_VERSION: Final = 2
"""Version 1 had no expiries: a checker of that version would judge one of these wrongly."""

_READABLE: Final = (1, 2)

CallResult = Literal["ok", "rejected", "failed", "unknown"]
"""`failed`: nothing was done, for sure. `unknown`: a write that may be in the log, once, or not at all."""


def text_of(data: bytes) -> str:
    """Bytes as text, one character for each, in the same order."""
    return data.decode("latin-1")


@dataclass(slots=True)
class Call:
    """One call. Keys and values are text, one character for each byte (`text_of`)."""

    number: int
    client: int
    kind: str
    """write, batch, read, scan, watch, replica, served."""
    start_ns: int
    """On one monotonic clock for all clients."""
    end_ns: int = 0
    partition: int = -1
    arguments: dict[str, Any] = field(default_factory=dict)
    outcome: CallResult = "failed"
    reply: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class LogRecord:
    """One record of the log, as it was read at the end."""

    partition: int
    offset: int
    operation: str
    """noop, put, delete, add, multiply, min, max, append."""
    key: str
    value: str
    condition: str = ""
    """absent, present, version, or nothing."""
    version: int = 0
    grouped: bool = False
    """The record belongs to the atomic group of the record before it."""
    producer: int = 0
    sequence: int = -1
    batch: int = 0
    """The base offset of its batch: records of one batch become visible together."""
    void: bool | None = False
    """The server says that it changed nothing; None: no server was left that could say it."""
    time_ms: int = 0
    """The timestamp of its batch."""
    expiry: str = ""
    """ttl, at, keep, or nothing."""
    expires_ms: int = 0
    """Of `ttl`: milliseconds of log time; of `at`: milliseconds since 1970."""


@dataclass(slots=True)
class BuiltPart:
    """One partition of a version with a content of its own, as it was built."""

    base: int
    """The log goes on behind this offset."""
    entries: dict[str, list[Any]]
    """By key: its version, at most `base`, and its value."""
    expires_ms: dict[str, int] = field(default_factory=dict)
    """By key, of those that expire: the log time from which on it is absent."""


_Line = TypeVar("_Line", Call, LogRecord)


@dataclass(slots=True)
class History:
    """Every call with its reply, and every record of the log."""

    partitions: int
    calls: list[Call] = field(default_factory=list)
    log: list[LogRecord] = field(default_factory=list)
    """By partition and offset."""
    about: dict[str, Any] = field(default_factory=dict)
    """The seed, the address, the faults: for people."""
    builds: dict[str, list[BuiltPart]] = field(default_factory=dict)
    """By URL: what was built there, by partition. A version of another URL counts as what the table held."""


def write_history(history: History, path: Path) -> None:
    """Write it as JSON lines: a header, the calls, the log."""
    with open(path, "w", encoding="ascii", opener=private_opener) as file:
        file.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in _lines(history))


def _lines(history: History) -> Iterator[dict[str, Any]]:
    head = {"history": HISTORY_VERSION, "partitions": history.partitions, "about": history.about}
    builds = {url: [asdict(part) for part in parts] for url, parts in history.builds.items()}
    yield {**head, "builds": builds} if builds else head
    for call in history.calls:
        yield {"call": asdict(call)}
    for record in history.log:
        yield {"log": asdict(record)}


def read_history(lines: Iterable[str]) -> History:
    """Read it again, without the fields that a newer version added. Raises `InvalidRequest` for something else, or a
    newer version.
    """
    source = iter(lines)
    try:
        head = json.loads(next(source, "{}"))
        if head.get("history") not in _READABLE:
            known = " or ".join(map(str, _READABLE))
            raise InvalidRequest(f"this is no history of version {known}: it begins with {str(head)[:80]}")
        history = History(int(head["partitions"]), about=head["about"])
        for url, parts in head.get("builds", {}).items():
            history.builds[url] = [
                BuiltPart(int(part["base"]), part["entries"], part.get("expires_ms", {})) for part in parts
            ]
        for line in source:
            document = json.loads(line)
            if "call" in document:
                history.calls.append(_of(Call, document["call"]))
            else:
                history.log.append(_of(LogRecord, document["log"]))
    except InvalidRequest:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidRequest(f"this history cannot be read ({error!r}): it was cut or changed") from error
    return history


def _of(kind: type[_Line], row: dict[str, Any]) -> _Line:
    known = {each.name for each in fields(kind)}
    return kind(**{name: value for name, value in row.items() if name in known})
