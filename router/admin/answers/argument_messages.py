"""The arguments of jobs, tasks and steps as messages, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from log_tier.catalog.jobs import ArgumentValue
from log_tier.privacy.masked_url import mask_url
from router.proto import admin_pb2 as pb

__all__ = ["argument_messages", "arguments_of"]


def argument_messages(arguments: Mapping[str, ArgumentValue]) -> list[pb.AdminArgument]:
    """One message for each, in the mapping's order; a URL without its secrets."""
    return [
        pb.AdminArgument(name=name, number=value)
        if isinstance(value, int)
        else pb.AdminArgument(name=name, text=mask_url(value) if name == "url" else value)
        for name, value in arguments.items()
    ]


def arguments_of(messages: Iterable[pb.AdminArgument]) -> dict[str, ArgumentValue]:
    """Each by its name."""
    return {each.name: each.number if each.HasField("number") else each.text for each in messages}
