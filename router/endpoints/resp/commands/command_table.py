"""The commands: their names, how many arguments they take, where their keys are, and what runs them.

    read     a `Step` that changes nothing        blind   a `Step` that need not read before it writes; `blind` makes
    change   a `Step` that reads and writes               its records where that holds for its options
    talk     about the connection: answers at once
    ask      everything else: a coroutine

The flag `no_multi` lets a command run between MULTI and EXEC, `alone` refuses it there; the others wait for EXEC.

Arity, key positions and flags are those of Redis 7, which COMMAND tells to clients: some route by them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from log_tier.model.record import Expiry, Operation, attribute_of
from router.endpoints.resp.commands import cluster, counters, keys, scans, server, strings, subscriptions, transactions
from router.endpoints.resp.commands import connection as talk
from router.endpoints.resp.commands import duramen as own
from router.endpoints.resp.commands import flushdb as flushing
from router.endpoints.resp.commands import native as batches
from router.endpoints.resp.data.shared_writer import Record
from router.endpoints.resp.wire.arguments import expiry_time, shown, text_of
from router.endpoints.resp.wire.fallback_parser import Command
from router.endpoints.resp.wire.problems import wrong_arity
from router.endpoints.resp.wire.replies import Problem
from serving_tier.fold.entry import NEVER

__all__ = ["COMMANDS", "CommandSpec", "find_command", "unknown_command"]

Blind = Callable[[Sequence[bytes], int], "list[Record] | None"]


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """One command. Positions count the command's name as 0."""

    name: str
    arity: int
    """How many words it has, its name included; negative: at least so many."""
    flags: frozenset[str]
    kind: Literal["read", "change", "blind", "talk", "ask"]
    run: Callable[..., Any]
    first: int = 0
    """The first key; 0: no keys."""
    last: int = 0
    """The last one; negative: from the end."""
    step: int = 0
    blind: Blind | None = None
    divisible: bool = False
    """Over several partitions, each does its part, and the replies are added."""
    summary: str = ""
    subcommands: Mapping[str, int] | None = None
    """The arity of each, where the next word is one of these."""

    def refusal(self, command: Sequence[bytes]) -> Problem | None:
        """Why these words are no command, whatever they mean; None where they may be one."""
        if not self.fits(len(command)):
            return wrong_arity(self.name)
        if self.subcommands is not None and len(command) > 1:
            name = text_of(command[1]).upper()
            arity = self.subcommands.get(name)
            if arity is None:
                return Problem(f"ERR unknown subcommand '{shown(command[1])}'. Try {self.name.upper()} HELP.")
            if not _fits(arity, len(command)):
                return wrong_arity(f"{self.name}|{name.lower()}")
        return None

    def fits(self, words: int) -> bool:
        """Is this a number of words that it can have?"""
        return _fits(self.arity, words)

    def keys(self, command: Sequence[bytes]) -> Sequence[bytes]:
        """The keys of a command."""
        if not self.first:
            return ()
        last = self.last if self.last >= 0 else len(command) + self.last
        return command[self.first : last + 1 : self.step]


def _fits(arity: int, words: int) -> bool:
    return words == arity if arity > 0 else words >= -arity


# --- writes that need not read

_PUT_AT: Final = attribute_of(Operation.PUT, expiry=Expiry.AT)
_PUT_KEEP: Final = attribute_of(Operation.PUT, expiry=Expiry.KEEP)


def _blind_set(args: Sequence[bytes], now_ms: int) -> list[Record] | None:
    key, value, *rest = args
    options = strings.set_options(rest, now_ms)
    if options.condition or options.get:
        return None
    if options.keep:
        return [Record(key, value, _PUT_KEEP)]
    if options.expires_at_ms == NEVER:
        return [Record(key, value)]
    return [Record(key, value, _PUT_AT, 0, options.expires_at_ms)]


def _blind_setex(args: Sequence[bytes], now_ms: int) -> list[Record]:
    key, time, value = args
    expires_at_ms = expiry_time(time, seconds=True, absolute=False, now_ms=now_ms, command="setex")
    return [Record(key, value, _PUT_AT, 0, expires_at_ms)]


def _blind_psetex(args: Sequence[bytes], now_ms: int) -> list[Record]:
    key, time, value = args
    expires_at_ms = expiry_time(time, seconds=False, absolute=False, now_ms=now_ms, command="psetex")
    return [Record(key, value, _PUT_AT, 0, expires_at_ms)]


def _blind_mset(args: Sequence[bytes], now_ms: int) -> list[Record]:
    if len(args) % 2:
        raise wrong_arity("mset")
    return [Record(key, value) for key, value in zip(args[::2], args[1::2], strict=True)]


# --- the table


def _data() -> list[CommandSpec]:
    read, write = frozenset({"readonly", "fast"}), frozenset({"write", "denyoom", "fast"})
    slow = frozenset({"write", "denyoom"})

    def reads(name: str, arity: int, run: Callable[..., Any], last: int = 1, summary: str = "") -> CommandSpec:
        return CommandSpec(name, arity, read, "read", run, 1, last, 1, summary=summary)

    def changes(
        name: str, arity: int, run: Callable[..., Any], summary: str, flags: frozenset[str] = write
    ) -> CommandSpec:
        return CommandSpec(name, arity, flags, "change", run, 1, 1, 1, summary=summary)

    def blinds(
        name: str, arity: int, run: Callable[..., Any], blind: Blind, summary: str, last: int = 1, step: int = 1
    ) -> CommandSpec:
        return CommandSpec(name, arity, slow, "blind", run, 1, last, step, blind, last != 1, summary)

    return [
        reads("get", 2, strings.get, summary="Returns the value of a key."),
        reads("mget", -2, strings.mget, -1, "Returns the values of several keys."),
        reads("strlen", 2, strings.strlen, summary="Returns the length of a value."),
        reads("getrange", 4, strings.getrange, summary="Returns a part of a value."),
        reads("exists", -2, keys.exists, -1, "Counts those of the keys that are there."),
        reads("touch", -2, keys.exists, -1, "Counts those of the keys that are there."),
        reads("type", 2, keys.type_, summary="Returns the type of a value: always string."),
        reads("ttl", 2, keys.ttl, summary="Returns the seconds until a key expires."),
        reads("pttl", 2, keys.pttl, summary="Returns the milliseconds until a key expires."),
        reads("expiretime", 2, keys.expiretime, summary="Returns when a key expires, in seconds since 1970."),
        reads("pexpiretime", 2, keys.pexpiretime, summary="Returns when a key expires, in ms since 1970."),
        blinds("set", -3, strings.set_, _blind_set, "Sets the value of a key."),
        blinds("setex", 4, strings.setex, _blind_setex, "Sets a value that expires, in seconds."),
        blinds("psetex", 4, strings.psetex, _blind_psetex, "Sets a value that expires, in milliseconds."),
        blinds("mset", -3, strings.mset, _blind_mset, "Sets the values of several keys.", -1, 2),
        CommandSpec(
            "msetnx", -3, slow, "change", strings.msetnx, 1, -1, 2, summary="Sets several keys if none is there."
        ),
        changes("setnx", 3, strings.setnx, "Sets a value if the key is not there."),
        changes("getset", 3, strings.getset, "Sets a value and returns the one before."),
        changes("getdel", 2, strings.getdel, "Returns a value and deletes its key."),
        changes("getex", -2, strings.getex, "Returns a value and changes when it expires."),
        changes("append", 3, strings.append, "Appends to a value."),
        changes("setrange", 4, strings.setrange, "Overwrites a part of a value.", slow),
        changes("incr", 2, counters.incr, "Adds one."),
        changes("incrby", 3, counters.incrby, "Adds an integer."),
        changes("decr", 2, counters.decr, "Subtracts one."),
        changes("decrby", 3, counters.decrby, "Subtracts an integer."),
        changes("incrbyfloat", 3, counters.incrbyfloat, "Adds a decimal number."),
        *(
            CommandSpec(name, -2, frozenset({"write"}), "change", keys.delete, 1, -1, 1, None, True, "Deletes keys.")
            for name in ("del", "unlink")
        ),
        changes("persist", 2, keys.persist, "Lets a key never expire."),
        changes("expire", -3, keys.expire, "Lets a key expire in so many seconds."),
        changes("pexpire", -3, keys.pexpire, "Lets a key expire in so many milliseconds."),
        changes("expireat", -3, keys.expireat, "Lets a key expire at a time in seconds."),
        changes("pexpireat", -3, keys.pexpireat, "Lets a key expire at a time in milliseconds."),
    ]


def _others() -> list[CommandSpec]:
    def talks(
        name: str,
        arity: int,
        run: Callable[..., Any],
        *flags: str,
        summary: str,
        words: Mapping[str, int] | None = None,
    ) -> CommandSpec:
        every = frozenset({"fast", "loading", "stale", *flags})
        return CommandSpec(name, arity, every, "talk", run, summary=summary, subcommands=words)

    def asks(
        name: str,
        arity: int,
        run: Callable[..., Any],
        *flags: str,
        summary: str,
        words: Mapping[str, int] | None = None,
    ) -> CommandSpec:
        return CommandSpec(name, arity, frozenset(flags), "ask", run, summary=summary, subcommands=words)

    first = ("no_auth", "no_multi")
    return [
        talks("ping", -1, talk.ping, "pubsub", summary="Answers PONG."),
        talks("echo", 2, talk.echo, summary="Answers what it was given."),
        talks("hello", -1, talk.hello, *first, summary="Begins a connection: protocol, name, password."),
        talks("auth", -2, talk.auth, *first, summary="Gives the password."),
        asks("select", 2, talk.select, summary="Goes to another table."),
        talks("quit", -1, talk.quit_, *first, "pubsub", summary="Ends the connection."),
        talks("reset", 1, talk.reset, *first, "pubsub", summary="Makes the connection as it was at its beginning."),
        talks("client", -2, talk.client, summary="About connections.", words=talk.CLIENT_WORDS),
        talks("time", 1, talk.time, summary="Returns the server's clock."),
        talks("command", -1, server.command, summary="About commands.", words=server.COMMAND_WORDS),
        asks("info", -1, server.info, summary="Tells how the server is."),
        asks("dbsize", 1, server.dbsize, "readonly", summary="Counts the keys of the table."),
        asks("flushdb", -1, flushing.flushdb, "write", summary="Clears the table: an empty version, by a barrier."),
        asks("wait", 3, server.wait, summary="Waits for replicas to apply what was written."),
        asks("randomkey", 1, scans.randomkey, "readonly", summary="Returns some key."),
        asks("scan", -2, scans.scan, "readonly", summary="Walks over the keys, some at a time."),
        asks("keys", 2, scans.keys, "readonly", summary="Returns the keys that match a pattern."),
        talks("multi", 1, transactions.multi, "no_multi", summary="Begins a transaction."),
        asks("exec", 1, transactions.execute, "no_multi", summary="Runs the transaction."),
        talks("discard", 1, transactions.discard, "no_multi", summary="Forgets the transaction."),
        CommandSpec(
            "watch",
            -2,
            frozenset({"no_multi"}),
            "ask",
            transactions.watch,
            1,
            -1,
            1,
            summary="Lets EXEC fail if keys change.",
        ),
        talks("unwatch", 1, transactions.unwatch, summary="Forgets the watched keys."),
        asks(
            "subscribe",
            -2,
            subscriptions.subscribe,
            "pubsub",
            "loading",
            "stale",
            "alone",
            summary="Listens to channels.",
        ),
        talks("unsubscribe", -1, subscriptions.unsubscribe, "pubsub", "alone", summary="Listens no more."),
        asks(
            "psubscribe",
            -2,
            subscriptions.psubscribe,
            "pubsub",
            "loading",
            "stale",
            "alone",
            summary="Listens to patterns.",
        ),
        talks("punsubscribe", -1, subscriptions.punsubscribe, "pubsub", "alone", summary="Listens no more."),
        asks("cluster", -2, cluster.cluster, summary="About slots and nodes.", words=cluster.CLUSTER_WORDS),
        talks("readonly", 1, cluster.readonly, summary="Reads from replicas are welcome."),
        talks("readwrite", 1, cluster.readwrite, summary="Takes READONLY back."),
        talks("asking", 1, cluster.asking, summary="Follows an ASK redirection."),
        asks("duramen.token", 1, own.token, summary="Returns a token of all that was seen."),
        talks("duramen.after", 2, own.after, "alone", summary="Lets the next reads wait for a token."),
        talks("duramen.level", -1, own.level, "alone", summary="session, eventual or strong."),
        talks("duramen.read", 5, batches.read, "alone", summary="For Duramen's own client: a value and its offset."),
        asks(
            "duramen.await", 4, batches.wait_applied, "alone", summary="For Duramen's own client: waits for an offset."
        ),
        asks("duramen.write", 4, batches.write, "alone", summary="For Duramen's own client: appends a batch."),
        CommandSpec(
            "duramen.getv",
            2,
            frozenset({"readonly", "fast"}),
            "read",
            own.getv,
            1,
            1,
            1,
            summary="Returns a value with its version.",
        ),
        CommandSpec(
            "duramen.setv",
            -4,
            frozenset({"write"}),
            "ask",
            own.setv,
            1,
            1,
            1,
            summary="Sets a value if its version is still the one that is named.",
        ),
    ]


COMMANDS: Final[dict[str, CommandSpec]] = {spec.name: spec for spec in (*_data(), *_others())}
"""Every command by its name in small letters."""

_BY_WORD: Final = {
    word: spec for spec in COMMANDS.values() for word in (spec.name.encode(), spec.name.upper().encode())
}


def find_command(word: bytes) -> CommandSpec | None:
    """The command of that name, in any letters."""
    return _BY_WORD.get(word) or _BY_WORD.get(word.upper())


def unknown_command(command: Command) -> Problem:
    """As Redis refuses what it does not know."""
    args = ""
    for argument in command[1:]:
        if len(args) >= 128:
            break
        args += f"'{shown(argument, 128 - len(args))}' "
    return Problem(f"ERR unknown command '{shown(command[0], 128)}', with args beginning with: {args}")
