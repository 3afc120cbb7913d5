"""Replies: what a command answers, and its bytes in RESP2 and RESP3.

A command returns Python values; `encode` writes them as the connection's protocol has them:

    bytes, str      bulk string                     None      null (RESP2: the null bulk string)
    int             integer                         list      array
    Simple          simple string (`+OK`)           dict      map (RESP2: an array of keys and values)
    Problem         error                           Push      push message (RESP2: an array)
    bool, float     boolean and double (RESP2: 0 or 1, bulk string)
    Members         set (RESP2: an array)
    NULL_ARRAY      null (RESP2: the null array, as an EXEC that was aborted)

RESP3 is https://redis.io/docs/latest/develop/reference/protocol-spec/ of 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from router.endpoints.resp.wire.limits import AT_ONCE_BYTES_MAX, AT_ONCE_KEYS_MAX, OUTPUT_BYTES_MAX

__all__ = [
    "NO_REPLY",
    "NULL",
    "NULL_ARRAY",
    "OK",
    "OK_STATUS",
    "ZERO_OR_ONE",
    "Members",
    "Problem",
    "Push",
    "Simple",
    "bulk",
    "encode",
    "encode_large",
    "encode_many",
    "is_large",
    "size_of",
]


class Simple(str):
    """A simple string: a status. No line ends in it."""

    __slots__ = ()


class Problem(Exception):
    """An error reply: `ERR what is wrong`. Raised or returned by commands; the first word is its kind."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Push(list[Any]):
    """A message that answers no command."""


class Members(list[Any]):
    """A set: the order of its members has no meaning."""


class _NullArray:
    """The type of `NULL_ARRAY`."""


NULL_ARRAY: Final = _NullArray()

NO_REPLY: Final = Push()
"""A command that has sent its messages itself."""

_NESTED: Final = frozenset({list, tuple, dict, Members})

# A copy of so much is some 0.1 ms.
_PIECE_BYTES: Final = 256 * 1024

OK: Final = b"+OK\r\n"
OK_STATUS: Final = Simple("OK")
"""The reply `+OK`, as commands return it."""
NULL: Final = {2: b"$-1\r\n", 3: b"_\r\n"}
ZERO_OR_ONE: Final = (b":0\r\n", b":1\r\n")


def bulk(value: bytes) -> bytes:
    """A bulk string. 0.15 µs."""
    return b"$%d\r\n%b\r\n" % (len(value), value)


def size_of(reply: Any) -> int:
    """About how many bytes a reply will have. A look at each value, and no copy."""
    if isinstance(reply, (bytes, str)):
        return len(reply)
    if isinstance(reply, (list, tuple)):
        return sum(map(size_of, reply)) + 16 * len(reply)
    if isinstance(reply, dict):
        return sum(map(size_of, reply)) + sum(map(size_of, reply.values())) + 32 * len(reply)
    return 16


def is_large(reply: Any) -> bool:
    """Is a reply one that a thread should encode? A look at its outermost list or map, and at sizes in it."""
    if type(reply) is dict:
        reply = [*reply.values()]
    if type(reply) is not list:
        return False
    if len(reply) > AT_ONCE_KEYS_MAX:
        return True
    size = sum([len(each) for each in reply if type(each) is bytes])
    size += 1024 * sum([len(each) for each in reply if type(each) in _NESTED])
    return size > AT_ONCE_BYTES_MAX // 4


def encode_large(reply: Any, protocol: int) -> list[bytes]:
    """The bytes of a reply in pieces, none of which was put together from more than some ten thousand values.

    Raises `OverflowError`, with the reply's size in bytes, for more than `OUTPUT_BYTES_MAX`.
    """
    size = size_of(reply)
    if size > OUTPUT_BYTES_MAX:
        raise OverflowError(size)
    parts: list[bytes] = []
    _write(reply, protocol, parts)
    pieces: list[bytes] = []
    begin, room = 0, _PIECE_BYTES
    for number, part in enumerate(parts):
        room -= len(part)
        if room < 0:
            pieces.append(b"".join(parts[begin:number]))
            begin, room = number, _PIECE_BYTES - len(part)
    pieces.append(b"".join(parts[begin:]))
    return pieces


def encode(reply: Any, protocol: int) -> bytes:
    """The bytes of a reply. `protocol`: 2 or 3."""
    if isinstance(reply, bytes):
        return b"$%d\r\n%b\r\n" % (len(reply), reply)
    if reply is NO_REPLY:
        return b""
    parts: list[bytes] = []
    _write(reply, protocol, parts)
    return b"".join(parts)


def encode_many(replies: Sequence[Any], protocol: int) -> list[bytes]:
    """The bytes of each reply. 0.1 µs each for numbers, values, nulls and statuses that are `OK`."""
    null = NULL[protocol]
    if set(map(type, replies)) == {int}:
        return list(map(b":%d\r\n".__mod__, replies))
    return [
        b":%d\r\n" % reply
        if type(reply) is int
        else b"$%d\r\n%b\r\n" % (len(reply), reply)
        if type(reply) is bytes
        else OK
        if reply is OK_STATUS
        else null
        if reply is None
        else encode(reply, protocol)
        for reply in replies
    ]


def _write(reply: Any, protocol: int, parts: list[bytes]) -> None:
    if isinstance(reply, bytes):
        parts.append(b"$%d\r\n%b\r\n" % (len(reply), reply))
    elif reply is None:
        parts.append(NULL[protocol])
    elif isinstance(reply, Simple):
        parts.append(b"+%b\r\n" % reply.encode())
    elif isinstance(reply, str):
        parts.append(bulk(reply.encode("utf-8", "surrogateescape")))
    elif isinstance(reply, bool):
        parts.append((b"#t\r\n" if reply else b"#f\r\n") if protocol == 3 else ZERO_OR_ONE[reply])
    elif isinstance(reply, int):
        parts.append(b":%d\r\n" % reply)
    elif isinstance(reply, float):
        number = repr(reply).encode()
        parts.append(b",%b\r\n" % number if protocol == 3 else bulk(number))
    elif isinstance(reply, Problem):
        text = reply.text.replace("\r", " ").replace("\n", " ").encode("utf-8", "surrogateescape")
        parts.append(b"-%b\r\n" % text)
    elif isinstance(reply, dict):
        parts.append(b"%%%d\r\n" % len(reply) if protocol == 3 else b"*%d\r\n" % (2 * len(reply)))
        for key, value in reply.items():
            _write(key, protocol, parts)
            _write(value, protocol, parts)
    elif isinstance(reply, (list, tuple)):
        head = b"*%d\r\n"
        if protocol == 3:
            head = b">%d\r\n" if isinstance(reply, Push) else b"~%d\r\n" if isinstance(reply, Members) else head
        parts.append(head % len(reply))
        for item in reply:
            _write(item, protocol, parts)
    elif reply is NULL_ARRAY:
        parts.append(NULL[3] if protocol == 3 else b"*-1\r\n")
    else:
        raise AssertionError(f"{type(reply).__name__} is no reply")
