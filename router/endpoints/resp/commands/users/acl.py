"""ACL: who is here, and what they may do, in the words of Redis.

Users belong to the cluster. `duramen user` and `duramen grant` make them, for every endpoint alike; here they are only
shown. A grant of Duramen is a selector of Redis, with the table that it is about in addition: no rule of Redis names
one. The selectors are a description. What is decided is the text of the grants, which GETUSER has as well.

While the catalog has no users there is one, `default`, as in a new Redis. Nobody is shown a hash of a secret.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from log_tier.trust.grants import Grant, Right
from log_tier.trust.users import TrustState
from router.endpoints.resp.command_descriptions import DESCRIPTIONS
from router.endpoints.resp.command_spec import sync_command
from router.endpoints.resp.commands.users.command_audit import note_question
from router.endpoints.resp.context import CommandContext
from router.endpoints.resp.data.served_tables import DEFAULT_TABLE, NUMBERS
from router.endpoints.resp.wire.arguments import shown, text_of
from router.endpoints.resp.wire.replies import Problem, Simple

__all__ = ["SPECS", "acl"]

_WORDS: Final = {
    "WHOAMI": 2,
    "CAT": -2,
    "HELP": 2,
    "LIST": 2,
    "USERS": 2,
    "GETUSER": 3,
    "SETUSER": -3,
    "DELUSER": -3,
    "LOAD": 2,
    "SAVE": 2,
}
"""What may follow ACL, with its arity."""

_IN_THREAD: Final = frozenset({"LIST", "USERS", "GETUSER"})
"""Those whose replies grow with the users or their grants."""

_CATEGORIES: Final = (
    *("keyspace", "read", "write", "set", "sortedset", "list", "hash", "string", "bitmap", "hyperloglog", "geo"),
    *("stream", "pubsub", "admin", "fast", "slow", "blocking", "dangerous", "connection", "transaction", "scripting"),
)
"""All that Redis has: the answer does not depend on which commands are here."""

_HELP: Final = (
    "ACL <subcommand> [<argument>]. Subcommands are:",
    "CAT [<category>]",
    "    The categories of commands, or the commands of one.",
    "GETUSER <user>",
    "    What a user may do. Of others only for who has 'admin *'.",
    "LIST",
    "    All users and what they may do, one line each. Needs 'admin *'.",
    "USERS",
    "    The names of all users. Needs 'admin *'.",
    "WHOAMI",
    "    The user of this connection.",
    "HELP",
    "    This text.",
    "Users are made by 'duramen user', and 'duramen grant' says what they may do.",
)

_EVERYBODY: Final = b"-@all +@connection"
"""What a user may do without a grant, about."""
_DEFAULT: Final = "default"

_GLOB: Final = {byte: b"\\%c" % byte for byte in b"*?[]\\"}


def acl(client: CommandContext, args: Sequence[bytes]) -> Any:
    """ACL WHOAMI | CAT [category] | HELP | LIST | USERS | GETUSER user; what makes users is refused."""
    name, rest = text_of(args[0]).upper(), args[1:]
    if name == "WHOAMI":
        return (client.caller.name if client.server.is_guarded else _DEFAULT).encode()
    if name == "CAT":
        return _category(rest) if rest else [*_CATEGORIES]
    if name == "HELP":
        return [Simple(line) for line in _HELP]
    if name not in _IN_THREAD:
        raise Problem(f"ERR ACL {name} changes nothing here: use 'duramen user' and 'duramen grant', for all endpoints")
    trust = client.server.gate.trust
    if not client.server.is_guarded:
        return _of_default(name, rest, has_password=bool(client.server.secret))
    note_question(client, f"acl|{name.lower()}", [b"acl", *args])
    if name == "GETUSER":
        return asyncio.to_thread(_entry, trust, text_of(rest[0]))
    return asyncio.to_thread(_lines if name == "LIST" else _names, trust)


def _category(args: Sequence[bytes]) -> list[bytes]:
    """The commands of a category. Raises `Problem`."""
    if len(args) > 1:
        raise Problem("ERR unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.")
    wanted = text_of(args[0]).lower()
    if wanted not in _CATEGORIES:
        raise Problem(f"ERR Unknown category '{shown(args[0])}'")
    return [name.encode() for name, each in DESCRIPTIONS.items() if wanted in each.categories.split()]


async def _of_default(name: str, args: Sequence[bytes], *, has_password: bool) -> Any:
    """The one user that there is while the catalog has none: everybody who knows the one password, if there is one."""
    if name == "USERS":
        return [_DEFAULT.encode()]
    flags = [b"on"] if has_password else [b"on", b"nopass"]
    if name == "LIST":
        return [b"user default %b ~* &* +@all" % b" ".join(flags)]
    if text_of(args[0]) != _DEFAULT:
        return None
    rules = {"commands": b"+@all", "keys": b"~*", "channels": b"&*", "selectors": []}
    return {"flags": flags, "passwords": [], **rules}


# --- users of the catalog


def _names(trust: TrustState) -> list[bytes]:
    return [name.encode() for name in sorted(trust.users)]


def _lines(trust: TrustState) -> list[bytes]:
    return [_line(trust, name) for name in sorted(trust.users)]


def _line(trust: TrustState, name: str) -> bytes:
    """One user, as ACL LIST has it: `user alice on … (table=orders ~eu:* …)`."""
    selectors = b"".join(b" (%b)" % _selector_line(grant) for grant in trust.grants_of(name))
    return b"user %b on resetchannels %b%b" % (name.encode(), _EVERYBODY, selectors)


def _selector_line(grant: Grant) -> bytes:
    channels = _channels(grant)
    listens = channels if channels == b"&*" else b"resetchannels " + channels
    words = (b"table=" + grant.table.encode(), _keys(grant), listens.rstrip(), _commands(grant))
    return b" ".join(filter(None, words))


def _entry(trust: TrustState, name: str) -> dict[str, Any] | None:
    """One user, as ACL GETUSER has it; None: there is no such one."""
    if name not in trust.users:
        return None
    grants = list(trust.grants_of(name))
    return {
        "flags": [b"on"],
        "passwords": [],
        "commands": _EVERYBODY,
        "keys": b"",
        "channels": b"",
        "selectors": [
            {
                "commands": _commands(grant),
                "keys": _keys(grant),
                "channels": _channels(grant),
                "table": grant.table.encode(),
            }
            for grant in grants
        ],
        "grants": [grant.text.encode() for grant in grants],
    }


def _commands(grant: Grant) -> bytes:
    words = [b"-@all"]
    if Right.READ in grant.rights:
        words.append(b"+@read")
    if Right.WRITE in grant.rights:
        words.append(b"+@write")
    if Right.ADMIN in grant.rights:
        words.append(b"+@admin +flushdb" if grant.table == "*" else b"+flushdb")
    return b" ".join(words)


def _keys(grant: Grant) -> bytes:
    """The pattern of the keys, after the rights on them: `~eu:*`, `%R~eu:*`, `%W~eu:*`; empty for `admin` alone."""
    rights = b"".join(word for right, word in ((Right.READ, b"R"), (Right.WRITE, b"W")) if right in grant.rights)
    if not rights:
        return b""
    pattern = b"".join(_GLOB.get(byte) or bytes((byte,)) for byte in grant.key) + b"*"
    return b"~" + pattern if rights == b"RW" else b"%" + rights + b"~" + pattern


def _channels(grant: Grant) -> bytes:
    """The channels about the tables whose every key may be read."""
    if Right.READ not in grant.rights or grant.key:
        return b""
    if grant.table == "*":
        return b"&*"
    names = (DEFAULT_TABLE, *(f"db{number}" for number in range(1, NUMBERS)))
    start = grant.table.removesuffix("*")
    covered = [
        number
        for number, name in enumerate(names)
        if (name.startswith(start) if start != grant.table else name == grant.table)
    ]
    return b" ".join(b"&__key*@%d__:*" % number for number in covered)


SPECS: Final = (
    sync_command("acl", -2, acl, summary="Shows users and what they may do.", words=_WORDS, async_words=_IN_THREAD),
)
"""The commands of this module."""
