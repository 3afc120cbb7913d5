"""Changes as messages of `router/proto/admin.proto`, and back. The verbs' declarations say which is which."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Partition
from router.admin.verb import Verb
from router.admin.verbs import VERBS, AdminChange, RestoreNode, verb_of
from router.proto import admin_pb2 as pb

__all__ = ["change_from", "start_request"]

_BY_MESSAGE: Final[Mapping[str, Verb]] = {verb.message: verb for verb in VERBS.values()}


def start_request(change: AdminChange, *, dry_run: bool, plan_id: str = "") -> pb.AdminStartRequest:
    """The message for a change. Raises `InvalidRequest` for a number that no message can carry."""
    member = verb_of(change).message
    fields = {name: value for name, value in change._asdict().items() if value not in (None, "")}
    request = pb.AdminStartRequest(dry_run=dry_run, plan=plan_id)
    try:
        getattr(request, member).SetInParent()
        for name, value in fields.items():
            setattr(getattr(request, member), name, value)
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{member.replace('_', '-')} cannot be asked so: {error}") from error
    return request


def change_from(request: pb.AdminStartRequest) -> AdminChange:
    """The change that a message asks for. Raises `InvalidRequest` where it asks for none that we know."""
    member = request.WhichOneof("change")
    if member is None:
        raise InvalidRequest(
            f"a start names one of {', '.join(_BY_MESSAGE)}; a newer client may ask for more: update this"
        )
    message, kind = getattr(request, member), _BY_MESSAGE[member].change
    given: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if not field.has_presence or message.HasField(field.name):
            value = getattr(message, field.name)
            given[field.name] = Partition(value) if field.name == "partition" else value
    if kind is RestoreNode and not given["source"]:
        del given["source"]
    change: AdminChange = kind(**given)
    return change
