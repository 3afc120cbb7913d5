"""What COMMAND reports of each command: flags, ACL categories, tips, key specifications, as Redis 7.0 has them.

Clients of a cluster act on it. A tip of `request_policy:all_shards` lets them ask every node, one of
`response_policy:agg_sum` lets them add the answers; without them `DBSIZE` is what one node holds
(https://redis.io/docs/latest/develop/reference/command-tips/).
`tests/router/endpoints/resp/test_command_descriptions.py` compares every command with a real server's.

Pure data. What this server itself looks at (arity, where keys are, what may be in a transaction) is in
`commands/command_table.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.wire.replies import Members, Simple

__all__ = ["DESCRIPTIONS", "Description", "described", "documented"]


class Description(NamedTuple):
    """One command, or one subcommand. Words are separated by spaces."""

    flags: str
    categories: str
    """Of ACLs, without `@`."""
    since: str
    """The version of Redis, or of Duramen for its own."""
    group: str
    tips: str = ""
    keys: str = ""
    """The flags of its one key specification; none: it has no keys."""
    notes: str = ""
    """Of the key specification."""


DESCRIPTIONS: Final[Mapping[str, Description]] = {
    "get": Description("fast readonly", "fast read string", "1.0.0", "string", keys="RO access"),
    "mget": Description(
        "fast readonly", "fast read string", "1.0.0", "string", tips="request_policy:multi_shard", keys="RO access"
    ),
    "strlen": Description("fast readonly", "fast read string", "2.2.0", "string", keys="RO"),
    "getrange": Description("readonly", "read slow string", "2.4.0", "string", keys="RO access"),
    "exists": Description(
        "fast readonly",
        "fast keyspace read",
        "1.0.0",
        "generic",
        tips="request_policy:multi_shard response_policy:agg_sum",
        keys="RO",
    ),
    "touch": Description(
        "fast readonly",
        "fast keyspace read",
        "3.2.1",
        "generic",
        tips="request_policy:multi_shard response_policy:agg_sum",
        keys="RO",
    ),
    "type": Description("fast readonly", "fast keyspace read", "1.0.0", "generic", keys="RO"),
    "ttl": Description(
        "fast readonly", "fast keyspace read", "1.0.0", "generic", tips="nondeterministic_output", keys="RO access"
    ),
    "pttl": Description(
        "fast readonly", "fast keyspace read", "2.6.0", "generic", tips="nondeterministic_output", keys="RO access"
    ),
    "expiretime": Description("fast readonly", "fast keyspace read", "7.0.0", "generic", keys="RO access"),
    "pexpiretime": Description("fast readonly", "fast keyspace read", "7.0.0", "generic", keys="RO access"),
    "set": Description(
        "denyoom write",
        "slow string write",
        "1.0.0",
        "string",
        keys="RW access update variable_flags",
        notes="RW and ACCESS due to the optional `GET` argument",
    ),
    "setex": Description("denyoom write", "slow string write", "2.0.0", "string", keys="OW update"),
    "psetex": Description("denyoom write", "slow string write", "2.6.0", "string", keys="OW update"),
    "mset": Description(
        "denyoom write",
        "slow string write",
        "1.0.1",
        "string",
        tips="request_policy:multi_shard response_policy:all_succeeded",
        keys="OW update",
    ),
    "msetnx": Description(
        "denyoom write",
        "slow string write",
        "1.0.1",
        "string",
        tips="request_policy:multi_shard response_policy:agg_min",
        keys="OW insert",
    ),
    "setnx": Description("denyoom fast write", "fast string write", "1.0.0", "string", keys="OW insert"),
    "getset": Description("denyoom fast write", "fast string write", "1.0.0", "string", keys="RW access update"),
    "getdel": Description("fast write", "fast string write", "6.2.0", "string", keys="RW access delete"),
    "getex": Description(
        "fast write",
        "fast string write",
        "6.2.0",
        "string",
        keys="RW access update",
        notes="RW and UPDATE because it changes the TTL",
    ),
    "append": Description("denyoom fast write", "fast string write", "2.0.0", "string", keys="RW insert"),
    "setrange": Description("denyoom write", "slow string write", "2.2.0", "string", keys="RW update"),
    "incr": Description("denyoom fast write", "fast string write", "1.0.0", "string", keys="RW access update"),
    "incrby": Description("denyoom fast write", "fast string write", "1.0.0", "string", keys="RW access update"),
    "decr": Description("denyoom fast write", "fast string write", "1.0.0", "string", keys="RW access update"),
    "decrby": Description("denyoom fast write", "fast string write", "1.0.0", "string", keys="RW access update"),
    "incrbyfloat": Description("denyoom fast write", "fast string write", "2.6.0", "string", keys="RW access update"),
    "del": Description(
        "write",
        "keyspace slow write",
        "1.0.0",
        "generic",
        tips="request_policy:multi_shard response_policy:agg_sum",
        keys="RM delete",
    ),
    "unlink": Description(
        "fast write",
        "fast keyspace write",
        "4.0.0",
        "generic",
        tips="request_policy:multi_shard response_policy:agg_sum",
        keys="RM delete",
    ),
    "persist": Description("fast write", "fast keyspace write", "2.2.0", "generic", keys="RW update"),
    "expire": Description("fast write", "fast keyspace write", "1.0.0", "generic", keys="RW update"),
    "pexpire": Description("fast write", "fast keyspace write", "2.6.0", "generic", keys="RW update"),
    "expireat": Description("fast write", "fast keyspace write", "1.2.0", "generic", keys="RW update"),
    "pexpireat": Description("fast write", "fast keyspace write", "2.6.0", "generic", keys="RW update"),
    "ping": Description(
        "fast", "connection fast", "1.0.0", "connection", tips="request_policy:all_shards response_policy:all_succeeded"
    ),
    "echo": Description("fast loading stale", "connection fast", "1.0.0", "connection"),
    "hello": Description("allow_busy fast loading no_auth noscript stale", "connection fast", "6.0.0", "connection"),
    "auth": Description("allow_busy fast loading no_auth noscript stale", "connection fast", "1.0.0", "connection"),
    "select": Description("fast loading stale", "connection fast", "1.0.0", "connection"),
    "quit": Description("allow_busy fast loading no_auth noscript stale", "connection fast", "1.0.0", "connection"),
    "reset": Description("allow_busy fast loading no_auth noscript stale", "connection fast", "6.2.0", "connection"),
    "client": Description("", "slow", "2.4.0", "connection"),
    "client|id": Description("loading noscript stale", "connection slow", "5.0.0", "connection"),
    "client|setname": Description("loading noscript stale", "connection slow", "2.6.9", "connection"),
    "client|getname": Description("loading noscript stale", "connection slow", "2.6.9", "connection"),
    "client|info": Description(
        "loading noscript stale", "connection slow", "6.2.0", "connection", tips="nondeterministic_output"
    ),
    "client|list": Description(
        "admin loading noscript stale",
        "admin connection dangerous slow",
        "2.4.0",
        "connection",
        tips="nondeterministic_output",
    ),
    "client|no-evict": Description(
        "admin loading noscript stale", "admin connection dangerous slow", "7.0.0", "connection"
    ),
    "slowlog": Description("", "slow", "2.2.12", "server"),
    "slowlog|get": Description(
        "admin loading stale",
        "admin dangerous slow",
        "2.2.12",
        "server",
        tips="request_policy:all_nodes nondeterministic_output",
    ),
    "slowlog|len": Description(
        "admin loading stale",
        "admin dangerous slow",
        "2.2.12",
        "server",
        tips="request_policy:all_nodes response_policy:agg_sum nondeterministic_output",
    ),
    "slowlog|reset": Description(
        "admin loading stale",
        "admin dangerous slow",
        "2.2.12",
        "server",
        tips="request_policy:all_nodes response_policy:all_succeeded",
    ),
    "slowlog|help": Description("loading stale", "slow", "6.2.0", "server"),
    "acl": Description("", "slow", "6.0.0", "server"),
    "acl|whoami": Description("loading noscript stale", "slow", "6.0.0", "server"),
    "acl|cat": Description("loading noscript stale", "slow", "6.0.0", "server"),
    "acl|help": Description("loading stale", "slow", "6.0.0", "server"),
    "acl|list": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "acl|users": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "acl|getuser": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "acl|setuser": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "acl|deluser": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "acl|load": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "acl|save": Description("admin loading noscript stale", "admin dangerous slow", "6.0.0", "server"),
    "time": Description("fast loading stale", "fast", "2.6.0", "server", tips="nondeterministic_output"),
    "command": Description(
        "loading stale", "connection slow", "2.8.13", "server", tips="nondeterministic_output_order"
    ),
    "command|count": Description("loading stale", "connection slow", "2.8.13", "server"),
    "command|info": Description(
        "loading stale", "connection slow", "2.8.13", "server", tips="nondeterministic_output_order"
    ),
    "command|docs": Description(
        "loading stale", "connection slow", "7.0.0", "server", tips="nondeterministic_output_order"
    ),
    "command|list": Description(
        "loading stale", "connection slow", "7.0.0", "server", tips="nondeterministic_output_order"
    ),
    "command|getkeys": Description("loading stale", "connection slow", "2.8.13", "server"),
    "info": Description(
        "loading stale",
        "dangerous slow",
        "1.0.0",
        "server",
        tips="nondeterministic_output request_policy:all_shards response_policy:special",
    ),
    "dbsize": Description(
        "fast readonly",
        "fast keyspace read",
        "1.0.0",
        "server",
        tips="request_policy:all_shards response_policy:agg_sum",
    ),
    "flushdb": Description(
        "write",
        "dangerous keyspace slow write",
        "1.0.0",
        "server",
        tips="request_policy:all_shards response_policy:all_succeeded",
    ),
    "wait": Description(
        "noscript", "connection slow", "3.0.0", "generic", tips="request_policy:all_shards response_policy:agg_min"
    ),
    "randomkey": Description(
        "readonly", "keyspace read slow", "1.0.0", "generic", tips="request_policy:all_shards nondeterministic_output"
    ),
    "scan": Description(
        "readonly", "keyspace read slow", "2.8.0", "generic", tips="nondeterministic_output request_policy:special"
    ),
    "keys": Description(
        "readonly",
        "dangerous keyspace read slow",
        "1.0.0",
        "generic",
        tips="request_policy:all_shards nondeterministic_output_order",
    ),
    "multi": Description("allow_busy fast loading noscript stale", "fast transaction", "1.2.0", "transactions"),
    "exec": Description("loading noscript skip_slowlog stale", "slow transaction", "1.2.0", "transactions"),
    "discard": Description("allow_busy fast loading noscript stale", "fast transaction", "2.0.0", "transactions"),
    "watch": Description(
        "allow_busy fast loading noscript stale", "fast transaction", "2.2.0", "transactions", keys="RO"
    ),
    "unwatch": Description("allow_busy fast loading noscript stale", "fast transaction", "2.2.0", "transactions"),
    "subscribe": Description("loading noscript pubsub stale", "pubsub slow", "2.0.0", "pubsub"),
    "unsubscribe": Description("loading noscript pubsub stale", "pubsub slow", "2.0.0", "pubsub"),
    "psubscribe": Description("loading noscript pubsub stale", "pubsub slow", "2.0.0", "pubsub"),
    "punsubscribe": Description("loading noscript pubsub stale", "pubsub slow", "2.0.0", "pubsub"),
    "cluster": Description("", "slow", "3.0.0", "cluster"),
    "cluster|slots": Description("stale", "slow", "3.0.0", "cluster", tips="nondeterministic_output"),
    "cluster|shards": Description("stale", "slow", "7.0.0", "cluster", tips="nondeterministic_output"),
    "cluster|nodes": Description("stale", "slow", "3.0.0", "cluster", tips="nondeterministic_output"),
    "cluster|info": Description("stale", "slow", "3.0.0", "cluster", tips="nondeterministic_output"),
    "cluster|myid": Description("stale", "slow", "3.0.0", "cluster"),
    "cluster|keyslot": Description("stale", "slow", "3.0.0", "cluster"),
    "readonly": Description("fast loading stale", "connection fast", "3.0.0", "cluster"),
    "readwrite": Description("fast loading stale", "connection fast", "3.0.0", "cluster"),
    "asking": Description("fast", "connection fast", "3.0.0", "cluster"),
    # Redis has these since 7.2; as it describes them there.
    "client|setinfo": Description(
        "loading noscript stale",
        "connection slow",
        "7.2.0",
        "connection",
        tips="request_policy:all_nodes response_policy:all_succeeded",
    ),
    "client|no-touch": Description("loading noscript stale", "connection slow", "7.2.0", "connection"),
    # Duramen's own. A token is of the connection that asks for it, so no client may ask every node for one.
    "duramen.token": Description(
        "fast readonly", "connection fast", "0.1.0", "generic", tips="nondeterministic_output"
    ),
    "duramen.after": Description("fast loading stale", "connection fast", "0.1.0", "connection"),
    "duramen.level": Description("fast loading stale", "connection fast", "0.1.0", "connection"),
    "duramen.read": Description("fast readonly", "fast read", "0.1.0", "generic", tips="nondeterministic_output"),
    "duramen.fetch": Description("readonly", "read slow", "0.1.0", "generic", tips="nondeterministic_output"),
    "duramen.await": Description("readonly", "read slow", "0.1.0", "generic"),
    "duramen.write": Description("denyoom write", "slow write", "0.1.0", "generic"),
    "duramen.getv": Description("fast readonly", "fast read string", "0.1.0", "string", keys="RO access"),
    "duramen.setv": Description("denyoom write", "slow string write", "0.1.0", "string", keys="RW update"),
}
"""The descriptions by the command's name; a subcommand as `client|list`."""


def described(spec: CommandSpec) -> list[Any]:
    """The reply to COMMAND and COMMAND INFO."""
    description = DESCRIPTIONS[spec.name]
    subcommands = [_entry(name, arity, DESCRIPTIONS[name], (0, 0, 0), []) for name, arity in _subcommands(spec)]
    return _entry(spec.name, spec.arity, description, (spec.first, spec.last, spec.step), subcommands)


def _entry(
    name: str, arity: int, description: Description, places: tuple[int, int, int], subcommands: list[Any]
) -> list[Any]:
    return [
        name,
        arity,
        Members(map(Simple, description.flags.split())),
        *places,
        Members(Simple(f"@{category}") for category in description.categories.split()),
        description.tips.split(),
        [_key_specification(description, places)] if description.keys else [],
        subcommands,
    ]


def _key_specification(description: Description, places: tuple[int, int, int]) -> dict[str, Any]:
    first, last, step = places
    return {
        **({"notes": description.notes} if description.notes else {}),
        "flags": Members(map(Simple, description.keys.split())),
        "begin_search": {"type": "index", "spec": {"index": first}},
        "find_keys": {
            "type": "range",
            # The last key is counted from the first one, or from the end.
            "spec": {"lastkey": last - first if last >= 0 else last, "keystep": step, "limit": 0},
        },
    }


def _subcommands(spec: CommandSpec) -> list[tuple[str, int]]:
    return [(f"{spec.name}|{word.lower()}", arity) for word, arity in (spec.subcommands or {}).items()]


def documented(spec: CommandSpec) -> dict[str, Any]:
    """The reply to COMMAND DOCS. Summaries are Duramen's own."""
    description = DESCRIPTIONS[spec.name]
    report: dict[str, Any] = {"summary": spec.summary, "since": description.since, "group": description.group}
    subcommands = {
        name: {"since": DESCRIPTIONS[name].since, "group": DESCRIPTIONS[name].group} for name, _ in _subcommands(spec)
    }
    return {**report, "subcommands": subcommands} if subcommands else report
