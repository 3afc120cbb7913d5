"""Options: what is said is what is meant, and what is mistyped is refused by name."""

from __future__ import annotations

import pytest

from log_tier.model.errors import InvalidRequest, InvalidToken
from log_tier.model.identifiers import Offset, Partition, table_id_from_bytes
from log_tier.model.tokens import Token
from spark_bulk.source.model.key_ranges import ALL_KEYS, KeyRange
from spark_bulk.source.model.options import parse_read_options, parse_write_options

PLACE = {"at": "localhost:7070", "table": "flights"}
TOKEN = str(Token.of(table_id_from_bytes(bytes(16)), Partition(0), Offset(4)))


def test_what_is_not_said_has_a_default() -> None:
    options = parse_read_options(PLACE)
    assert (options.login.servers, options.table, options.timeout_s) == (("localhost:7070",), "flights", 600.0)
    assert (options.keys, options.values, options.token, options.log) == ("bytes", None, "", False)
    assert (options.range, options.all_records, options.records_max) == (ALL_KEYS, False, 0)
    written = parse_write_options(PLACE)
    assert (written.values, written.job, written.compress) == (None, "", False)


def test_names_and_choices_are_read_in_any_case() -> None:
    options = parse_read_options(
        {"AT": "a:1", "Table": "t", "LOG": "True", "Records": "ALL", "maxRecordsPerTrigger": "7", "timeout": "1.5"}
    )
    assert (options.log, options.all_records, options.records_max, options.timeout_s) == (True, True, 7, 1.5)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"key": "UA1"}, KeyRange(b"UA1", b"UA1\x00")),
        ({"key": "base64:AP8="}, KeyRange(b"\x00\xff", b"\x00\xff\x00")),
        ({"prefix": "UA"}, KeyRange(b"UA", b"UB")),
        ({"start": "a", "end": "é"}, KeyRange(b"a", "é".encode())),
        ({"start": "a"}, KeyRange(b"a", None)),
        ({"end": "a"}, KeyRange(b"", b"a")),
    ],
)
def test_ranges(given: dict[str, str], expected: KeyRange) -> None:
    assert parse_read_options({**PLACE, **given}).range == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pushdown": "true"}, "pushdown is no option of a read: there are at, .* key, .* prefix"),
        ({"tabel": "x"}, "tabel is no option of a read: there are at, ca, end, "),
        ({"maxRecordsPerTriger": "1"}, "maxRecordsPerTrigger"),
        ({"at": ""}, "the option `at` is missing: host:port"),
        ({"table": ""}, "the option `table` is missing"),
        ({"keys": "json"}, "`keys` is one of bytes, utf8, not 'json'"),
        ({"log": "yes"}, "`log` is one of false, true, not 'yes'"),
        ({"schema": "n INT"}, "set `values` to json"),
        ({"log": "true", "values": "json"}, "from_json"),
        ({"log": "true", "values": "rows"}, "read `values` as bytes"),
        ({"log": "true", "where": "{}"}, "read `values` as bytes, without `where`"),
        ({"where": "carrier = 'UA'"}, "`where` is no JSON"),
        ({"where": '["UA"]'}, "`where` is an object of fields"),
        ({"where": "{}", "prefix": "UA"}, "by `where`, or a range of stored keys"),
        ({"token": "snapshot"}, "say where the store is: the option `snapshots`"),
        ({"to": "earliest"}, "nothing ends at the earliest"),
        ({"maxRecordsPerTrigger": "0"}, "a whole number above 0, not '0'"),
        ({"maxRecordsPerTrigger": "-5"}, "a whole number above 0, not '-5'"),
        ({"timeout": "soon"}, "a number of seconds, not 'soon'"),
        ({"timeout": "nan"}, "a number of seconds above 0"),
        ({"key": "a", "prefix": "b"}, "one of `key`, `prefix`, or `start` and `end`"),
        ({"key": "a", "end": "b"}, "one of `key`, `prefix`, or `start` and `end`"),
        ({"key": "base64:?"}, "is no base64"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        parse_read_options({**PLACE, **given})


@pytest.mark.parametrize("name", ["token", "from", "to"])
def test_tokens_are_looked_at(name: str) -> None:
    parse_read_options({**PLACE, name: TOKEN})
    with pytest.raises(InvalidToken):
        parse_read_options({**PLACE, name: TOKEN[:-3]})


def test_what_spark_adds_is_let_through() -> None:
    parse_write_options({**PLACE, "checkpointLocation": "/tmp/x"})
    with pytest.raises(InvalidRequest, match="token is no option of a write"):
        parse_write_options({**PLACE, "token": TOKEN})
