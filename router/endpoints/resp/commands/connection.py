"""The commands about the connection itself: PING, HELLO, AUTH, SELECT, CLIENT, QUIT."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from hmac import compare_digest
from typing import Any, Final

from log_tier.access.gate import NOBODY
from log_tier.access.tokens import read_token
from log_tier.model.errors import Overloaded, Unauthenticated
from log_tier.model.tokens import Token
from router.endpoints.resp.command_spec import async_command, sync_command
from router.endpoints.resp.commands.users.command_audit import note_login, note_no_login, note_question
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE, name_of
from router.endpoints.resp.wire.arguments import SYNTAX, check_options, shown, strict_integer, text_of
from router.endpoints.resp.wire.error_replies import wrong_arity
from router.endpoints.resp.wire.limits import CONNECTIONS_MAX
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = [
    "COMPATIBLE_WITH",
    "SPECS",
    "auth",
    "client",
    "echo",
    "hello",
    "ping",
    "quit_",
    "reset",
    "select",
    "time",
]

_OK: Final = Simple("OK")
_WRONG_PASSWORD: Final = Problem("WRONGPASS invalid username-password pair or user is disabled.")
_NO_DEFAULT: Final = Problem(
    f"{_WRONG_PASSWORD.text} This database has users: give AUTH <user> <password or token>, or AUTH <token>"
)
_NO_PASSWORD: Final = Problem(
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
    "configuration is correct?"
)

# So many clients are listed in one turn of the event loop: some 1 ms.
_LISTED_AT_ONCE: Final = 64

# A line of CLIENT LIST holds three names, between spaces, and there are thousands of lines.
_NAME_BYTES_MAX: Final = 256

_BAD_NAME: Final = Problem("ERR Client names cannot contain spaces, newlines or special characters.")

_CLIENT_WORDS: Final = {
    "ID": 2,
    "SETNAME": 3,
    "GETNAME": 2,
    "INFO": 2,
    "LIST": -2,
    "SETINFO": 4,
    "NO-EVICT": 3,
    "NO-TOUCH": 3,
}
"""What may follow CLIENT, with its arity."""

COMPATIBLE_WITH: Final = "7.0.0"
"""The version of Redis whose replies the commands here give; clients look at it before they use what is newer."""


def ping(client: CommandContext, args: Sequence[bytes]) -> Any:
    """PING [message]"""
    if len(args) > 1:
        raise wrong_arity("ping")
    if client.subscribed:
        return [b"pong", args[0] if args else b""]
    return args[0] if args else Simple("PONG")


def echo(client: CommandContext, args: Sequence[bytes]) -> bytes:
    """ECHO message"""
    return args[0]


def time(client: CommandContext, args: Sequence[bytes]) -> list[str]:
    """TIME"""
    now_us = client.server.clock.wall_us()
    return [str(now_us // 1_000_000), str(now_us % 1_000_000)]


async def hello(client: CommandContext, args: Sequence[bytes]) -> dict[str, Any]:
    """HELLO [2 | 3 [AUTH user password] [SETNAME name]]"""
    protocol = client.protocol
    name: bytes | None = None
    check_options(args)
    authenticated = client.authenticated
    if args:
        number = strict_integer(args[0])
        if number is None:
            raise Problem("ERR Protocol version is not an integer or out of range")
        if number not in (2, 3):
            raise Problem("NOPROTO unsupported protocol version")
        protocol = number
        at = 1
        while at < len(args):
            option = args[at].upper()
            if option == b"AUTH" and at + 2 < len(args):
                await _log_in(client, args[at + 1], args[at + 2])
                authenticated = True
                at += 3
            elif option == b"SETNAME" and at + 1 < len(args):
                name = _checked_name(args[at + 1])
                at += 2
            else:
                raise Problem(f"ERR Syntax error in HELLO option '{shown(args[at])}'")
    if not authenticated:
        raise Problem(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
            "<user> <pass> option can be used to authenticate the client and select the RESP protocol version at the "
            "same time"
        )
    client.protocol = protocol
    if not client.server.is_guarded:
        client.authenticated = True
    if name is not None:
        client.name = name
    client.changed()
    return {
        "server": "duramen",
        "version": COMPATIBLE_WITH,
        "proto": protocol,
        "id": client.id,
        "mode": "cluster" if client.server.clustered else "standalone",
        "role": "master",
        "modules": [],
    }


async def auth(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """AUTH [user] password"""
    if len(args) > 2:
        raise SYNTAX
    server = client.server
    if not server.is_guarded and not server.secret and len(args) == 1:
        raise _NO_PASSWORD
    await _log_in(client, args[0] if len(args) == 2 else b"default", args[-1])
    if not server.is_guarded:
        client.authenticated = True
        client.changed()
    return _OK


async def _log_in(client: CommandContext, user: bytes, secret: bytes) -> None:
    """Raises `Problem` for a wrong password. Where there are users, the caller is the user from here on."""
    if not client.server.is_guarded:
        _check_password(client, user, secret)
        return
    name, text = text_of(user), text_of(secret)
    authenticator = client.server.authenticator
    is_named = name != "default"
    try:
        if not is_named and read_token(text) is not None:
            caller = authenticator.by_token(text)  # it says itself whose it is
        else:
            host = client.address.rpartition(":")[0]
            caller = await authenticator.by_password(name, text, address=host)
    except (Unauthenticated, Overloaded) as error:
        note_no_login(client, name, text, error)
        if isinstance(error, Overloaded):
            raise
        raise _WRONG_PASSWORD if is_named else _NO_DEFAULT from None
    client.prove(caller)
    note_login(client)


def _check_password(client: CommandContext, user: bytes, password: bytes) -> None:
    secret = client.server.secret
    # Without a password the user `default` may come with any, as in Redis.
    if user != b"default" or (secret and not compare_digest(password, secret)):
        raise _WRONG_PASSWORD


async def select(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """SELECT number | name: a number's table is made when it is first used, a name has to be there."""
    name = name_of(args[0])
    number = int(args[0]) if args[0].isdigit() else 0
    table = client.server.tables.at_hand(name)
    if table is None and not args[0].isdigit():
        table = await client.server.tables.open(name)
    client.select(name, table, number)
    return _OK


def quit_(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """QUIT"""
    client.finish("QUIT")
    return _OK


def reset(client: CommandContext, args: Sequence[bytes]) -> Simple:
    """RESET"""
    client.transaction, client.aborted = None, False
    client.watched = {}
    client.server.notifications.forget(client)
    client.protocol, client.name = 2, b""
    client.level, client.token = "session", Token()
    client.cluster_aware = False
    if client.server.is_guarded:
        client.prove(NOBODY)
    else:
        client.authenticated = not client.server.secret
    client.select(DEFAULT_TABLE, client.server.tables.at_hand(DEFAULT_TABLE), 0)
    client.changed()
    return Simple("RESET")


def client(client: CommandContext, args: Sequence[bytes]) -> Any:
    """CLIENT ID | SETNAME | GETNAME | INFO | LIST | SETINFO | NO-EVICT | NO-TOUCH"""
    name, rest = text_of(args[0]).upper(), args[1:]
    if name == "ID":
        return client.id
    if name == "SETNAME":
        client.name = _checked_name(rest[0])
        return _OK
    if name == "GETNAME":
        return client.name or None
    if name == "SETINFO":
        option = text_of(rest[0]).lower()
        if option not in ("lib-name", "lib-ver"):
            raise Problem(f"ERR Unrecognized option '{shown(rest[0])}'")
        client.library[option] = _checked_name(rest[1])
        return _OK
    if name == "INFO":
        return _line(client) + "\n"
    if name == "LIST":
        note_question(client, "client|list", [b"client", *args])
        return _list(client, rest)
    return _OK


async def _list(client: CommandContext, options: Sequence[bytes]) -> bytes:
    """One line for each connection, some of them in a turn of the event loop; those that end meanwhile included."""
    listed = _listed(client, options)
    pieces: list[bytes] = []
    for at in range(0, len(listed), _LISTED_AT_ONCE):
        lines = "".join([_line(each) + "\n" for each in listed[at : at + _LISTED_AT_ONCE]])
        pieces.append(lines.encode("utf-8", "surrogateescape"))
        await asyncio.sleep(0)
    return b"".join(pieces)


def _listed(client: CommandContext, options: Sequence[bytes]) -> list[CommandContext]:
    clients = client.server.clients
    if not options:
        return [clients[number] for number in sorted(clients)]
    if options[0].upper() == b"ID" and len(options) > 1:
        if len(options) > CONNECTIONS_MAX:
            raise Problem(f"ERR CLIENT LIST takes at most {CONNECTIONS_MAX - 1} ids, not {len(options) - 1}")
        numbers = [strict_integer(option) for option in options[1:]]
        if any(number is None for number in numbers):
            raise Problem("ERR Invalid client ID")
        return [clients[number] for number in dict.fromkeys(numbers) if number is not None and number in clients]
    if options[0].upper() == b"TYPE" and len(options) == 2:
        kind = options[1].lower()
        if kind not in (b"normal", b"master", b"replica", b"slave", b"pubsub"):
            raise Problem(f"ERR Unknown client type '{shown(options[1])}'")
        return [
            each
            for each in clients.values()
            if (kind == b"pubsub") == bool(each.channels or each.patterns) and kind in (b"normal", b"pubsub")
        ]
    raise SYNTAX


def _checked_name(name: bytes) -> bytes:
    if len(name) > _NAME_BYTES_MAX:
        raise Problem(f"ERR Client names have at most {_NAME_BYTES_MAX} bytes here")
    if any(not 0x21 <= byte <= 0x7E for byte in name):
        raise _BAD_NAME
    return name


def _line(client: CommandContext) -> str:
    """One connection, as Redis's CLIENT LIST describes it."""
    now = client.server.loop.time()
    host, port = client.local_address
    user = client.caller.name if client.server.is_guarded else "default"
    multi = -1 if client.transaction is None else len(client.transaction)
    return (
        f"id={client.id} addr={client.address} laddr={host}:{port} fd=-1 name={text_of(client.name)} "
        f"age={now - client.connected_s:.0f} idle=0 flags={'P' if client.channels or client.patterns else 'N'} "
        f"db={client.number} sub={len(client.channels)} psub={len(client.patterns)} ssub=0 multi={multi} "
        f"qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={client.reply_queue.unread_bytes} "
        "tot-mem=0 "
        f"events=r cmd={client.last_command} user={user} redir=-1 resp={client.protocol} "
        f"lib-name={text_of(client.library.get('lib-name', b''))} "
        f"lib-ver={text_of(client.library.get('lib-ver', b''))} "
        f"table={client.table_name}"
    )


_FIRST: Final = ("no_auth", "no_multi")

SPECS: Final = (
    sync_command("ping", -1, ping, "pubsub", summary="Answers PONG."),
    sync_command("echo", 2, echo, summary="Answers what it was given."),
    async_command("hello", -1, hello, *_FIRST, "fast", summary="Begins a connection: protocol, name, password."),
    async_command("auth", -2, auth, *_FIRST, "fast", summary="Gives the user and its password or token."),
    async_command("select", 2, select, summary="Goes to another table."),
    sync_command("quit", -1, quit_, *_FIRST, "pubsub", summary="Ends the connection."),
    sync_command("reset", 1, reset, *_FIRST, "pubsub", summary="Makes the connection as it was at its beginning."),
    sync_command(
        "client", -2, client, summary="About connections.", words=_CLIENT_WORDS, async_words=frozenset({"LIST"})
    ),
    sync_command("time", 1, time, summary="Returns the server's clock."),
)
"""The commands of this module."""
