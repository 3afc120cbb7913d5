"""Every verb is complete: a message, a planner, a command, a row in the documentation, a way there and back."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer.main import get_command

from duramen.cli.admin.app import app
from router.admin.find_planner import planner_of
from router.admin.messages import change_from, start_request
from router.admin.planners.plan import Plan
from router.admin.verb import Verb
from router.admin.verbs import VERBS, AdminChange, RestoreTable, Stage, verb_of
from router.proto import admin_pb2 as pb

ROOT = Path(__file__).parents[3]
CHANGES = get_args(AdminChange)
ONEOF = pb.AdminStartRequest.DESCRIPTOR.oneofs_by_name["change"]

# Their planners get what was looked up before: the sizes of a version's parts, the table to be and its offsets.
LOOKED_UP = {Stage: {"part_bytes"}, RestoreTable: {"target_name", "offsets"}}

verbs = pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.message)


def filled(verb: Verb) -> AdminChange:
    """The change with something in each of its fields."""
    change: Any = verb.change
    hints = get_type_hints(change)
    made: AdminChange = change(*(f"the {name}" if "str" in str(hints[name]) else 1 for name in change._fields))
    return made._replace(time_ms=None) if isinstance(made, RestoreTable) else made  # a token or a time, not both


def test_each_member_of_the_message_is_a_verb() -> None:
    assert set(VERBS) == set(CHANGES)
    assert sorted(verb.message for verb in VERBS.values()) == sorted(field.name for field in ONEOF.fields)


@verbs
def test_its_message_has_its_fields(verb: Verb) -> None:
    change: Any = verb.change
    message = pb.AdminStartRequest.DESCRIPTOR.fields_by_name[verb.message].message_type
    assert message is not None
    assert sorted(field.name for field in message.fields) == sorted(change._fields)


@verbs
@pytest.mark.parametrize("full", [True, False])
def test_it_comes_back_from_its_message(verb: Verb, full: bool) -> None:
    given: Any = filled(verb)
    if not full:
        given = verb.change(*given[: len(given) - len(given._field_defaults)])
    request = pb.AdminStartRequest.FromString(
        start_request(given, dry_run=True, plan_id="p").SerializeToString()  # a request goes over a wire
    )
    assert (request.dry_run, request.plan, request.WhichOneof("change")) == (True, "p", verb.message)
    assert change_from(request) == given
    assert type(change_from(request)) is verb.change
    assert verb_of(given) is verb


@verbs
def test_its_planner_takes_its_fields(verb: Verb) -> None:
    change: Any = verb.change
    signature = inspect.signature(planner_of(verb), eval_str=True)
    situation, *rest = signature.parameters.values()
    assert situation.name == "situation"
    assert signature.return_annotation is Plan
    wanted = {*change._fields, *(("bounds",) if verb.reads_log else ()), *LOOKED_UP.get(verb.change, ())}
    if verb.change is RestoreTable:
        wanted -= {"token", "time_ms"}
    assert {parameter.name for parameter in rest} == wanted


@verbs
def test_its_command_and_its_documentation(verb: Verb) -> None:
    command = get_command(app).commands[verb.command]  # type: ignore[attr-defined]
    assert {"dry_run", "wait", "timeout", "at", "json"} <= {parameter.name for parameter in command.params}
    assert ("yes" in {parameter.name for parameter in command.params}) == bool(verb.destroys)
    heading = f"## duramen admin {verb.command}"
    section = re.search(rf"^{heading}$(.*?)(?=^## |\Z)", (ROOT / "docs/CLI.md").read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None, f"`make docs` writes {heading}"
    if not verb.by_hand:
        assert (verb.change.__doc__ or "").splitlines()[0] in section[1]
        assert verb.examples, f"{verb.command} shows nobody how it is used"
    for example in verb.examples:
        assert example in section[1]
        assert example.startswith((verb.command, "snapshot")), "an example is about its command"
