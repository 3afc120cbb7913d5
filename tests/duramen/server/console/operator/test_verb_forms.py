"""The forms of the page are the verbs of administration: each that is declared, with the fields of its message."""

from __future__ import annotations

import json
from typing import Any

from duramen.server.console.console_files import read_console_files
from duramen.server.console.verb_forms import verb_forms_to_json
from router.admin.verbs import VERBS
from router.proto import admin_pb2 as pb

FORMS: list[dict[str, Any]] = json.loads(verb_forms_to_json())["verbs"]


def test_each_verb_has_a_form() -> None:
    members = [each.name for each in pb.AdminStartRequest.DESCRIPTOR.oneofs_by_name["change"].fields]
    assert sorted(form["message"] for form in FORMS) == sorted(members)
    assert all(form["help"] for form in FORMS)


def test_the_fields_are_those_of_the_message() -> None:
    for form in FORMS:
        message = pb.AdminStartRequest.DESCRIPTOR.fields_by_name[form["message"]].message_type
        assert message is not None
        assert [each["name"] for each in form["fields"]] == [each.name for each in message.fields]


def test_a_form_says_what_it_destroys_and_which_fields_it_needs() -> None:
    forms = {form["message"]: form for form in FORMS}
    assert {name for name, form in forms.items() if form["destroys"]} == {
        verb.message for verb in VERBS.values() if verb.destroys
    }
    assert forms["set_replicas"]["destroys_if"] == ["remove"]
    source, node = forms["restore_node"]["fields"][1], forms["restore_node"]["fields"][0]
    assert (node["required"], source["required"], source["usual"]) == (True, False, "auto")
    kinds = {each["name"]: each["kind"] for each in forms["discard"]["fields"]}
    assert kinds == {"table": "text", "version": "number", "force": "flag"}


def test_the_page_gets_them_as_a_file() -> None:
    file = read_console_files()["/console/verbs.json"]
    assert json.loads(file.body)["verbs"] == FORMS
    assert len(file.body) < 20_000
