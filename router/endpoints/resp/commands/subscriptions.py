"""SUBSCRIBE, PSUBSCRIBE and their opposites: which channels and patterns a connection listens to.

A subscription is confirmed after `Notifications.follow` has fixed the position of every watch that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from router.endpoints.resp.command_spec import async_command, sync_command
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.channels import numbered_table
from router.endpoints.resp.wire.limits import CHANNEL_BYTES_MAX
from router.endpoints.resp.wire.patterns import check_pattern
from router.endpoints.resp.wire.replies import NO_REPLY, Problem, Push, encode

__all__ = ["SPECS", "psubscribe", "punsubscribe", "subscribe", "unsubscribe"]

# Channels and patterns of one connection.
_SUBSCRIPTIONS_MAX: Final = 1000


async def subscribe(client: CommandContext, args: Sequence[bytes]) -> Any:
    """SUBSCRIBE channel [channel …]: `__keyspace@N__:key` or `__keyevent@N__:event`"""
    _check_room(client, args)
    for channel in args:
        if numbered_table(channel) is None:
            raise Problem(
                "ERR only keyspace notifications are here: __keyspace@0__:key and __keyevent@0__:event; messages "
                "between clients are not part of a database"
            )
        if len(channel) > CHANNEL_BYTES_MAX:
            raise Problem(f"ERR a channel's name has at most {CHANNEL_BYTES_MAX} bytes, this one has {len(channel)}")
    return await _listen(client, b"subscribe", client.channels, args)


async def psubscribe(client: CommandContext, args: Sequence[bytes]) -> Any:
    """PSUBSCRIBE pattern [pattern …]"""
    _check_room(client, args)
    for pattern in args:
        check_pattern(pattern)
    client.server.notifications.check_room(args)
    return await _listen(client, b"psubscribe", client.patterns, args)


def unsubscribe(client: CommandContext, args: Sequence[bytes]) -> Any:
    """UNSUBSCRIBE [channel …]"""
    return _leave(client, b"unsubscribe", client.channels, args)


def punsubscribe(client: CommandContext, args: Sequence[bytes]) -> Any:
    """PUNSUBSCRIBE [pattern …]"""
    return _leave(client, b"punsubscribe", client.patterns, args)


def _check_room(client: CommandContext, names: Sequence[bytes]) -> None:
    if len(client.channels) + len(client.patterns) + len(names) > _SUBSCRIPTIONS_MAX:
        raise Problem(f"ERR a connection listens to at most {_SUBSCRIPTIONS_MAX} channels and patterns")


async def _listen(client: CommandContext, kind: bytes, chosen: set[bytes], names: Sequence[bytes]) -> Any:
    notifications = client.server.notifications
    await notifications.follow(names)
    # Nothing is awaited from here on: what the watches show next is sent to this client too.
    for name in names:
        if name not in chosen:
            chosen.add(name)
            client.server.notifications.add(client, name, pattern=chosen is client.patterns)
        _confirm(client, kind, name)
    client.changed()
    notifications.compare()
    return NO_REPLY


def _leave(client: CommandContext, kind: bytes, chosen: set[bytes], names: Sequence[bytes]) -> Any:
    if len(names) > _SUBSCRIPTIONS_MAX:
        raise Problem(f"ERR a connection listens to at most {_SUBSCRIPTIONS_MAX} channels and patterns")
    left = list(names or sorted(chosen))
    for name in left:
        if name in chosen:
            chosen.discard(name)
            client.server.notifications.remove(client, name, pattern=chosen is client.patterns)
        _confirm(client, kind, name)
    if not left:
        _confirm(client, kind, None)
    client.changed()
    client.server.notifications.compare()
    return NO_REPLY


def _confirm(client: CommandContext, kind: bytes, name: bytes | None) -> None:
    listening = len(client.channels) + len(client.patterns)
    client.reply_queue.emit(encode(Push([kind, name, listening]), client.protocol))


_LISTENING: Final = ("pubsub", "loading", "stale", "alone")

SPECS: Final = (
    async_command("subscribe", -2, subscribe, *_LISTENING, summary="Listens to channels."),
    sync_command("unsubscribe", -1, unsubscribe, "pubsub", "alone", summary="Listens no more."),
    async_command("psubscribe", -2, psubscribe, *_LISTENING, summary="Listens to patterns."),
    sync_command("punsubscribe", -1, punsubscribe, "pubsub", "alone", summary="Listens no more."),
)
"""The commands of this module."""
