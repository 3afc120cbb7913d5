"""Options of Spark readers and writers: text in, checked values out. Nothing else is looked at but
the paths of what secures a cluster, and the environment for those that are not given (`cluster_login.py`).

An option that is unknown is refused with the names of those that are known: one that was mistyped would otherwise be
obeyed by nobody. Bytes are typed as text, or as `base64:…` where they are none, as on the command line.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from log_tier.model.errors import InvalidRequest
from log_tier.model.prefix_range import prefix_range
from log_tier.model.tokens import Token
from log_tier.rows.json_rows.strict_json import strict_json
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.key_ranges import KeyRange

__all__ = [
    "NEWEST_SNAPSHOT",
    "ReadOptions",
    "TextForm",
    "ValueForm",
    "WriteOptions",
    "parse_read_options",
    "parse_write_options",
]

TextForm = Literal["bytes", "utf8"]
ValueForm = Literal["bytes", "utf8", "json", "rows"]

NEWEST_SNAPSHOT: Final = "snapshot"
"""In the place of a token: each partition as its newest snapshot has it."""

_BASE64: Final = "base64:"

# A copy of an index of some GiB, and a node that gives two of them at a time.
_TIMEOUT_DEFAULT_S: Final = 600.0

_PLACE: Final = {"at", "table", "timeout", "ca", "token_file", "user"}
_READ: Final = _PLACE | {
    "keys",
    "values",
    "schema",
    "token",
    "snapshots",
    "folder",
    "where",
    "key",
    "prefix",
    "start",
    "end",
    "log",
    "from",
    "to",
    "records",
    "maxrecordspertrigger",
}
_WRITE: Final = _PLACE | {"values", "job", "compress"}

# What Spark itself puts among the options of a source or a sink.
_SPARKS: Final = {"checkpointlocation", "path", "truncate", "numrows"}

# Where no option at all came, it may be Spark that lost them (`catalog_tables`).
_NO_OPTIONS: Final = (
    ". Spark passes no options to writes of a table that CREATE TABLE made, nor to reads of one whose columns were "
    "named there: use CREATE TEMPORARY VIEW … USING duramen OPTIONS (…)"
)

_SPELLING: Final = {"maxrecordspertrigger": "maxRecordsPerTrigger"}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The checked options of a read."""

    login: ClusterLogin
    table: str
    timeout_s: float
    keys: TextForm
    values: ValueForm | None
    """None: as the table has them, rows or bytes."""
    json_schema: str
    """The JSON fields as Spark's DDL; empty where values are not JSON."""
    token: str
    """A token, or `NEWEST_SNAPSHOT`; empty: the log's end."""
    snapshots: str = field(repr=False)
    """The URL of the snapshot store; empty: snapshots are not used."""
    folder: str
    """Where copies of indexes lie while they are read; empty: where Spark keeps its own files."""
    range: KeyRange
    where: Mapping[str, Any]
    """Conditions on fields of rows, as values of JSON; empty: every row."""
    log: bool
    start: str
    """`earliest`, `latest` or a token: after what a read of the log begins; empty: at the earliest."""
    end: str
    """A token or `latest`: the last that a read of the log shows; empty: the latest."""
    all_records: bool
    """Also records that changed nothing."""
    records_max: int
    """The most records of one micro-batch; 0: no limit."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The checked options of a write."""

    login: ClusterLogin
    table: str
    timeout_s: float
    values: ValueForm | None
    """None: as the table has them, rows or bytes."""
    job: str
    """What names this job for deduplication; empty: one is drawn."""
    compress: bool


def parse_read_options(options: Mapping[str, str]) -> ReadOptions:
    """Read the options of `spark.read` or `spark.readStream`. Raises `InvalidRequest`, `InvalidToken`."""
    given = _known(options, _READ, "read")
    keys, values = _one_of(given, "keys", get_args(TextForm)), _form(given)
    json_schema = given.get("schema", "").strip()
    if json_schema and values != "json":
        raise InvalidRequest(
            "the option `schema` names the fields of JSON values: set `values` to json, or leave it out"
        )
    log = _flag(given, "log")
    if log and values == "json":
        raise InvalidRequest(
            "the log holds deletes and operands of updates, which are no JSON: read `values` as utf8 and use from_json"
        )
    if log and (values == "rows" or "where" in given):
        raise InvalidRequest(
            "the log holds deletes and updates of fields, which are no rows: read `values` as bytes, without `where`"
        )
    token = given.get("token", "")
    if token == NEWEST_SNAPSHOT and not given.get("snapshots"):
        raise InvalidRequest("to read the newest snapshot, say where the store is: the option `snapshots`")
    if token not in ("", NEWEST_SNAPSHOT):
        Token.parse(token)
    for name in ("from", "to"):
        if given.get(name, "") not in ("", "earliest", "latest"):
            Token.parse(given[name])
    if given.get("to") == "earliest":
        raise InvalidRequest("`to` is a token or `latest`: nothing ends at the earliest record")
    records = _one_of(given, "records", ("accepted", "all"))
    return ReadOptions(
        *_place(given),
        keys=keys,  # type: ignore[arg-type]
        values=values,
        json_schema=json_schema,
        token=token,
        snapshots=given.get("snapshots", ""),
        folder=given.get("folder", ""),
        range=_range(given),
        where=_where(given),
        log=log,
        start=given.get("from", ""),
        end=given.get("to", ""),
        all_records=records == "all",
        records_max=_count(given, "maxrecordspertrigger"),
    )


def parse_write_options(options: Mapping[str, str]) -> WriteOptions:
    """Read the options of `df.write` or `df.writeStream`. Raises `InvalidRequest`."""
    given = _known(options, _WRITE, "write")
    return WriteOptions(
        *_place(given),
        values=_form(given),
        job=given.get("job", ""),
        compress=_flag(given, "compress"),
    )


def _known(options: Mapping[str, str], known: set[str], what: str) -> dict[str, str]:
    given = {name.lower(): value for name, value in options.items()}
    unknown = given.keys() - known - _SPARKS
    if unknown:
        names = ", ".join(sorted(_SPELLING.get(name, name) for name in known))
        raise InvalidRequest(f"{', '.join(sorted(unknown))} is no option of a {what}: there are {names}")
    return given


def _place(given: Mapping[str, str]) -> tuple[ClusterLogin, str, float]:
    at = "host:port of any Duramen server, or duramens://[user@]host:port"
    for name, example in (("at", at), ("table", "the table's name")):
        if not given.get(name):
            raise InvalidRequest(f"the option `{name}` is missing: {example}{'' if given else _NO_OPTIONS}")
    timeout = given.get("timeout", "")
    try:
        seconds = float(timeout) if timeout else _TIMEOUT_DEFAULT_S
    except ValueError as error:
        raise InvalidRequest(f"`timeout` is a number of seconds, not {timeout!r}") from error
    if not seconds > 0:
        raise InvalidRequest(f"`timeout` is a number of seconds above 0, not {timeout!r}")
    login = ClusterLogin.of(given["at"], ca=given.get("ca"), token_file=given.get("token_file"), user=given.get("user"))
    return login, given["table"], seconds


def _one_of(given: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = given.get(name, choices[0]).lower()
    if value not in choices:
        raise InvalidRequest(f"`{name}` is one of {', '.join(choices)}, not {value!r}")
    return value


def _form(given: Mapping[str, str]) -> ValueForm | None:
    return _one_of(given, "values", get_args(ValueForm)) if "values" in given else None  # type: ignore[return-value]


def _where(given: Mapping[str, str]) -> Mapping[str, Any]:
    if "where" not in given:
        return {}
    if given.keys() & {"key", "prefix", "start", "end"}:
        raise InvalidRequest("name rows by `where`, or a range of stored keys, and not by both")
    try:
        found = strict_json(given["where"])
    except ValueError as error:
        raise InvalidRequest(f"`where` is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InvalidRequest(
            '`where` is an object of fields, each with its value or a list of two, a range: {"carrier": "UA", '
            '"flight": [1500, 1600]}'
        )
    return found


def _flag(given: Mapping[str, str], name: str) -> bool:
    return _one_of(given, name, ("false", "true")) == "true"


def _count(given: Mapping[str, str], name: str) -> int:
    value = given.get(name, "")
    if not value:
        return 0
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise InvalidRequest(f"`{_SPELLING.get(name, name)}` is a whole number above 0, not {value!r}")
    return int(value)


def _range(given: Mapping[str, str]) -> KeyRange:
    asked = [name for name in ("key", "prefix") if name in given]
    if len(asked) > 1 or (asked and ("start" in given or "end" in given)):
        raise InvalidRequest("name the keys by one of `key`, `prefix`, or `start` and `end`")
    if "key" in given:
        key = _bytes_of(given["key"])
        return KeyRange(key, key + b"\x00")
    if "prefix" in given:
        return KeyRange(*prefix_range(_bytes_of(given["prefix"])))
    return KeyRange(_bytes_of(given.get("start", "")), _bytes_of(given["end"]) if "end" in given else None)


def _bytes_of(text: str) -> bytes:
    if not text.startswith(_BASE64):
        return text.encode()
    try:
        return base64.b64decode(text[len(_BASE64) :], validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest(f"{text[:40]!r} is no base64 ({error}); text that begins so is given in base64") from error
