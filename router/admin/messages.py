"""Changes as messages of `router/proto/admin.proto`, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Partition
from router.admin import requests
from router.proto import admin_pb2 as pb

__all__ = ["change_from", "start_request"]

_MESSAGES: Final[Mapping[type, tuple[str, Callable[..., Any]]]] = {
    requests.Move: ("move", pb.AdminMove),
    requests.Drain: ("drain", pb.AdminDrain),
    requests.Retire: ("retire", pb.AdminRetire),
    requests.Rebalance: ("rebalance", pb.AdminRebalance),
    requests.SetReplicas: ("set_replicas", pb.AdminSetReplicas),
    requests.TakeSnapshots: ("take_snapshots", pb.AdminTakeSnapshots),
    requests.RestoreNode: ("restore_node", pb.AdminRestoreNode),
    requests.RestoreTable: ("restore_table", pb.AdminRestoreTable),
    requests.Trim: ("trim", pb.AdminTrim),
    requests.Compact: ("compact", pb.AdminCompact),
    requests.Stage: ("stage", pb.AdminStage),
    requests.Swap: ("swap", pb.AdminSwap),
    requests.Rollback: ("rollback", pb.AdminRollback),
    requests.Discard: ("discard", pb.AdminDiscard),
}
"""Which member of the request's `change` stands for which class; their fields have the same names."""

_KINDS: Final[Mapping[str, Any]] = {member: kind for kind, (member, _) in _MESSAGES.items()}


def start_request(change: requests.Change, *, dry_run: bool, plan_id: str = "") -> pb.AdminStartRequest:
    """The message for a change. Raises `InvalidRequest` for a number that no message can carry."""
    member, message = _MESSAGES[type(change)]
    fields = {name: value for name, value in change._asdict().items() if value not in (None, "")}
    try:
        return pb.AdminStartRequest(dry_run=dry_run, plan=plan_id, **{member: message(**fields)})
    except (ValueError, TypeError) as error:
        raise InvalidRequest(f"{member.replace('_', '-')} cannot be asked so: {error}") from error


def change_from(request: pb.AdminStartRequest) -> requests.Change:
    """The change that a message asks for. Raises `InvalidRequest` where it asks for none that we know."""
    member = request.WhichOneof("change")
    if member is None:
        raise InvalidRequest(f"a start names one of {', '.join(_KINDS)}; a newer client may ask for more: update this")
    message = getattr(request, member)
    given: dict[str, Any] = {}
    for name in _KINDS[member]._fields:
        field = message.DESCRIPTOR.fields_by_name[name]
        if not field.has_presence or message.HasField(name):
            value = getattr(message, name)
            given[name] = Partition(value) if name == "partition" else value
    if member == "restore_node" and not given["source"]:
        del given["source"]
    change: requests.Change = _KINDS[member](**given)
    return change
