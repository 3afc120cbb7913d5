"""What the registry answers, path by path, and to whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duramen.server.registry.registry_view import RegistryView
from duramen.server.registry.subjects import Subject, SubjectIndex
from log_tier.rows.key_fields import KeyField
from log_tier.rows.schema import NumberedSchema, RowSchema


def schema(name: str) -> RowSchema:
    return RowSchema.parse({"type": "record", "name": name, "fields": [{"name": "id", "type": "long"}]})


OLD, NEW, SHIP, GONE = schema("Old"), schema("New"), schema("Ship"), schema("Gone")
TEXTS = {1: OLD.text, 2: SHIP.text, 3: NEW.text, 4: GONE.text}
FLIGHTS = Subject("flights-value", "flights", (NumberedSchema(1, OLD), NumberedSchema(3, NEW)))
SHIPS = Subject("ships-value", "ships", (NumberedSchema(2, SHIP),))
TUGS = Subject("tugs-value", "tugs", (NumberedSchema(2, SHIP),))
INDEX = SubjectIndex(
    {each.name: each for each in (FLIGHTS, SHIPS, TUGS)}, {1: (FLIGHTS,), 2: (SHIPS, TUGS), 3: (FLIGHTS,)}
)


def asked(path: str, query: str = "", shows: Callable[[str], bool] | None = None) -> tuple[int, Any]:
    """The status, and the document that a client reads."""
    reply = RegistryView(INDEX, TEXTS, shows).answer(path, query).reply()
    assert reply.content_type == "application/vnd.schemaregistry.v1+json"
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize(
    ("path", "query", "document"),
    [
        ("/schemas/types", "", ["AVRO"]),
        ("/schemas/ids/3", "", {"schema": NEW.text}),
        ("/schemas/ids/3", "subject=flights-value", {"schema": NEW.text}),
        ("/schemas/ids/1", "fetchMaxId=true", {"schema": OLD.text, "maxId": 4}),
        ("/schemas/ids/4", "", {"schema": GONE.text}),
        ("/schemas/ids/4/versions", "", []),
        ("/schemas/ids/2/schema", "", json.loads(SHIP.text)),
        ("/schemas/ids/2/subjects", "", ["ships-value", "tugs-value"]),
        (
            "/schemas/ids/2/versions",
            "",
            [{"subject": "ships-value", "version": 1}, {"subject": "tugs-value", "version": 1}],
        ),
        ("/schemas/ids/3/versions", "", [{"subject": "flights-value", "version": 2}]),
        ("/subjects", "", ["flights-value", "ships-value", "tugs-value"]),
        ("/subjects/", "", ["flights-value", "ships-value", "tugs-value"]),
        ("/subjects", "subjectPrefix=sh&deleted=false", ["ships-value"]),
        ("/subjects", "offset=1&limit=1", ["ships-value"]),
        ("/subjects", "offset=2&limit=-1", ["tugs-value"]),
        ("/subjects/flights-value/versions", "", [1, 2]),
        ("/subjects/flights%2Dvalue/versions", "", [1, 2]),
        (
            "/subjects/flights-value/versions/latest",
            "",
            {"subject": "flights-value", "version": 2, "id": 3, "schema": NEW.text},
        ),
        (
            "/subjects/flights-value/versions/1",
            "",
            {"subject": "flights-value", "version": 1, "id": 1, "schema": OLD.text},
        ),
        ("/subjects/flights-value/versions/-1/schema", "", json.loads(NEW.text)),
        ("/subjects/ships-value/versions/1/referencedby", "", []),
        ("/config", "", {"compatibilityLevel": "BACKWARD"}),
        ("/config/ships-value", "defaultToGlobal=true", {"compatibilityLevel": "BACKWARD"}),
        ("/mode", "", {"mode": "READONLY"}),
        ("/mode/ships-value", "", {"mode": "READONLY"}),
    ],
)
def test_what_is_there(path: str, query: str, document: object) -> None:
    assert asked(path, query) == (200, document)


@pytest.mark.parametrize(
    ("path", "query", "status", "number", "message"),
    [
        ("/schemas/ids/5", "", 404, 40403, "Schema 5 not found"),
        ("/schemas/ids/0", "", 404, 40403, "Schema 0 not found"),
        ("/schemas/ids/4294967296", "", 404, 40403, "not found"),
        ("/schemas/ids/12345678901", "", 404, 404, "there is no /schemas/ids/12345678901 here"),
        ("/schemas/ids/x", "", 404, 404, "there is no /schemas/ids/x here"),
        ("/schemas/ids/1/versions/2", "", 404, 404, "there is no"),
        ("/schemas/ids/%D9%A1", "", 404, 404, "there is no"),  # a digit, and none of ASCII
        ("/schemas", "", 404, 404, "there is no /schemas here"),
        ("/subjects/ships", "", 404, 404, "there is no"),
        ("/subjects/none-value/versions", "", 404, 40401, "Subject 'none-value' not found"),
        ("/subjects/ships-key/versions", "", 404, 40401, "Subject 'ships-key' not found"),
        ("/subjects/ships/versions/1", "", 404, 40401, "Subject 'ships' not found"),
        ("/subjects/%00%0a%ff/versions", "", 404, 40401, r"Subject '\x00\n\ufffd' not found"),
        ("/subjects/ships-value/versions/2", "", 404, 40402, "Version 2 not found: ships-value has 1 to 1"),
        ("/subjects/ships-value/versions/2147483647", "", 404, 40402, "not found"),
        ("/subjects/ships-value/versions/2147483648", "", 422, 42202, "between [1, 2^31-1]"),
        ("/subjects/ships-value/versions/0", "", 422, 42202, "'0' is not a valid version id"),
        ("/subjects/ships-value/versions/newest", "", 422, 42202, "'newest' is not a valid version id"),
        ("/subjects/ships-value/versions/" + "9" * 5000, "", 422, 42202, "is not a valid version id"),
        ("/subjects", "offset=x", 400, 400, "offset is a number, not 'x'"),
        ("/subjects", "limit=" + "9" * 5000, 400, 400, "limit is a number"),
        ("/subjects", "&".join(f"a{each}=1" for each in range(21)), 400, 400, "at most 20 parameters"),
        ("/config/none-value", "", 404, 40401, "not found"),
        ("/mode/none-value", "", 404, 40401, "not found"),
    ],
)
def test_what_is_not(path: str, query: str, status: int, number: int, message: str) -> None:
    code, document = asked(path, query)
    assert (code, document["error_code"]) == (status, number)
    assert message in document["message"]
    assert len(document["message"]) < 300


GROWN = RowSchema.parse(
    {
        "type": "record",
        "name": "Old",
        "fields": [{"name": "id", "type": "long"}, {"name": "more", "type": "int", "default": 0}],
    }
)
NARROWER = RowSchema.parse({"type": "record", "name": "Old", "fields": [{"name": "id", "type": "int"}]})
BOATS = Subject("boats-value", "boats", (NumberedSchema(5, NARROWER), NumberedSchema(6, OLD)))
KEYED = Subject("keyed-value", "keyed", (NumberedSchema(7, GROWN),), (KeyField("id", "int"),))
CHECKED = SubjectIndex({each.name: each for each in (FLIGHTS, BOATS, KEYED)}, {})


def sent(path: str, document: Any, query: str = "", shows: Callable[[str], bool] | None = None) -> tuple[int, Any]:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    reply = RegistryView(CHECKED, {}, shows).checked(f"/compatibility/subjects/{path}", query, body).reply()
    return reply.status, json.loads(reply.body)


@pytest.mark.parametrize(
    ("path", "schema", "fits"),
    [
        ("boats-value/versions/latest", GROWN, True),
        ("boats-value/versions/1", GROWN, True),
        ("boats-value/versions", GROWN, True),
        ("boats-value/versions/", OLD, True),
        ("boats-value/versions/1", NARROWER, True),
        ("boats-value/versions/2", NARROWER, False),
        ("boats-value/versions/-1", NARROWER, False),
        ("boats-value/versions", NARROWER, False),
        ("keyed-value/versions/latest", OLD, True),
        ("keyed-value/versions/latest", NARROWER, False),
    ],
)
def test_whether_a_schema_may_follow(path: str, schema: RowSchema, fits: bool) -> None:
    document = {"schema": schema.text, "schemaType": "AVRO", "references": []}
    assert sent(path, document) == (200, {"is_compatible": fits})
    code, found = sent(path, {"schema": schema.text}, "normalize=false&verbose=true")
    assert (code, found["is_compatible"], bool(found["messages"])) == (200, fits, not fits)


def test_a_refusal_names_the_version_the_field_and_the_reason() -> None:
    _, found = sent("boats-value/versions", {"schema": NARROWER.text}, "verbose=True")
    (message,) = found["messages"]
    assert message.startswith("version 2: the field id: ")
    _, found = sent("keyed-value/versions/1", {"schema": SHIP.text.replace('"id"', '"ship"')}, "verbose=true")
    assert "it is a field of the key, which can neither go nor be renamed" in found["messages"][0]


@pytest.mark.parametrize(
    ("path", "document", "code", "number"),
    [
        ("none-value/versions/latest", {"schema": OLD.text}, 404, 40401),
        ("none-value/versions", {"schema": OLD.text}, 404, 40401),
        ("boats-value/versions/3", {"schema": OLD.text}, 404, 40402),
        ("boats-value/versions/0", {"schema": OLD.text}, 422, 42202),
        ("boats-value/versions/1/schema", {"schema": OLD.text}, 404, 404),
        ("boats-value", {"schema": OLD.text}, 404, 404),
        ("boats-value/versions/1", b"", 400, 400),
        ("boats-value/versions/1", b"\xff", 400, 400),
        ("boats-value/versions/1", b"[" * 60_000, 400, 400),
        ("boats-value/versions/1", [], 422, 42201),
        ("boats-value/versions/1", {}, 422, 42201),
        ("boats-value/versions/1", {"schema": {"type": "long"}}, 422, 42201),
        ("boats-value/versions/1", {"schema": "{"}, 422, 42201),
        ("boats-value/versions/1", {"schema": '"long"'}, 422, 42201),
        ("boats-value/versions/1", {"schema": OLD.text, "schemaType": "PROTOBUF"}, 422, 42201),
        ("boats-value/versions/1", {"schema": OLD.text, "references": [{"name": "a"}]}, 422, 42201),
    ],
)
def test_what_cannot_be_checked(path: str, document: Any, code: int, number: int) -> None:
    status, found = sent(path, document)
    assert (status, found["error_code"]) == (code, number)
    assert len(found["message"]) < 400


def test_a_subject_of_a_hidden_table_is_not_there_to_compare_with() -> None:
    hidden = sent("boats-value/versions/1", {"schema": OLD.text}, shows=lambda table: table == "keyed")
    missing = sent("goats-value/versions/1", {"schema": OLD.text})
    assert (hidden[0], hidden[1]["message"].replace("boats", "goats")) == (missing[0], missing[1]["message"])


def test_a_schema_of_hidden_tables_is_as_one_that_is_not_there() -> None:
    def tugs(table: str) -> bool:
        return table == "tugs"

    assert asked("/subjects", shows=tugs) == (200, ["tugs-value"])
    assert asked("/schemas/ids/2/subjects", shows=tugs) == (200, ["tugs-value"])
    assert asked("/schemas/ids/2", "fetchMaxId=true", shows=tugs) == (200, {"schema": SHIP.text, "maxId": 2})
    for hidden, never in (
        ("/schemas/ids/{}", (1, 9)),
        ("/schemas/ids/{}/versions", (4, 9)),
        ("/schemas/ids/{}/schema", (3, 9)),
        ("/subjects/{}-value/versions", ("ships", "tanks")),
        ("/subjects/{}-value/versions/latest", ("flights", "tanks")),
        ("/config/{}-value", ("flights", "tanks")),
        ("/mode/{}-value", ("flights", "tanks")),
    ):
        code, document = asked(hidden.format(never[0]), shows=tugs)
        other_code, other = asked(hidden.format(never[1]), shows=tugs)
        assert code == other_code == 404
        assert document["message"].replace(str(never[0]), "?") == other["message"].replace(str(never[1]), "?")


@given(
    st.lists(
        st.sampled_from(["schemas", "ids", "subjects", "versions", "config", "mode", "flights-value", "1", "-1"])
        | st.text(max_size=8),
        max_size=7,
    ),
    st.text(max_size=40),
)
def test_any_path_and_query_is_answered(parts: list[str], query: str) -> None:
    code, _ = asked("/" + "/".join(parts), query)
    assert code in (200, 400, 404, 422)
