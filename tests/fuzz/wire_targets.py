"""What clients of the Redis protocol send: requests however they are cut, inline lines, patterns, fences, records."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final
from zlib import crc32

from fuzz.target import Target
from log_tier.kafka.records.assembly import Assembly, KafkaRecord
from log_tier.kafka.records.header import pack_header, read_header
from log_tier.model.batch import decode_batch
from log_tier.model.identifiers import Offset
from router.endpoints.resp.wire.fallback_parser import FallbackParser, ProtocolError, RespCommand, split_line
from router.endpoints.resp.wire.fence import ConnectionState, Fences, encode_state
from router.endpoints.resp.wire.framing import RequestStream, lone_command, lone_get, lone_set
from router.endpoints.resp.wire.patterns import Glob
from router.endpoints.resp.wire.replies import Problem

__all__ = ["wire_targets"]

_SECRET: Final = b"0123456789abcdef0123456789abcdef"
_REQUESTS_BYTES_MAX: Final = 16 * 1024
"""They are read three times, and may be one command for each four bytes: some 2 us."""


def _requests() -> list[bytes]:
    one = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n"
    two = b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"
    return [
        one,
        two * 5 + one + two,
        b"PING\r\n" + two + b"set \"a b\" 'c'\r\n",
        b"*2\r\n$4\r\nMGET\r\n$6\r\n*12345\r\n" + one,
        b"*0\r\n*-1\r\n" + two,
        b"*4\r\n$6\r\nAPPEND\r\n$1\r\nk\r\n$70\r\n" + b"x" * 70 + b"\r\n$0\r\n\r\n" + two,
    ]


def _all_at_once(data: bytes) -> tuple[list[RespCommand], str]:
    parser, commands = FallbackParser(), list[RespCommand]()
    try:
        commands += parser.take(data)
        while parser.more:
            commands += parser.take(b"")
    except ProtocolError as error:
        return [*commands, *error.commands], error.text
    return commands, ""


def _in_pieces(pieces: Sequence[bytes]) -> tuple[list[RespCommand], str, bool]:
    stream, commands = RequestStream(), list[RespCommand]()
    try:
        for piece in pieces:
            commands += stream.take(piece)
            while stream.more:
                commands += stream.take()
    except ProtocolError as error:
        return [*commands, *error.commands], error.text, True
    return commands, "", stream.idle


def _request(data: bytes) -> None:
    """However the bytes are cut, they are the same commands."""
    lone_command(data), lone_get(data), lone_set(data)
    chance = random.Random(crc32(data))
    cuts = sorted({0, len(data), *(chance.randint(0, len(data)) for _ in range(chance.randint(0, 6)))})
    pieces = [data[start:end] for start, end in pairwise(cuts)]
    wanted, refused = _all_at_once(data)
    for cut in ([data], pieces):
        found, error, is_complete = _in_pieces(cut)
        assert [command for command in found if command] == [command for command in wanted if command], (cut, found)
        # What cannot be a command is refused at once, or when that command is complete.
        assert bool(error) == bool(refused) or not (error or is_complete), f"{cut}: {error!r}, {refused!r} at once"


def _glob(data: bytes) -> None:
    pattern, _, subject = data.partition(b"\0")
    glob = Glob(pattern)
    if glob.matches(subject):
        assert subject.startswith(glob.prefix), f"{pattern!r} matches {subject!r} without its prefix {glob.prefix!r}"


def _fence(data: bytes) -> None:
    """What is no fence passes as it is, however it is cut. One that is wrong is refused: who knows the secret is the
    server itself.
    """
    half = len(data) // 2
    fences, rest = Fences(_SECRET), b""
    for piece in (data[:half], data[half:], b"-end\r\n"):
        rest += fences.take(piece)[0]
    if b"+" + _SECRET not in data:
        assert rest == data + b"-end\r\n"


def _kafka(data: bytes) -> None:
    """Any records of others make batches that are decoded, at every offset once."""
    chance = random.Random(crc32(data))
    header_bytes, text = data[:48], data[48:]
    assembly, at, batches = Assembly(Offset(0)), 0, list[bytes]()
    for _ in range(3):
        header = read_header(header_bytes[: chance.choice((26, 34, 42, 48))])
        key = chance.choice((None, b"", text[:10], text))
        value = chance.choice((None, b"", text[10:]))
        at += chance.choice((0, 0, 5))
        record = KafkaRecord(Offset(at), 1000 + at, key, value, header, bad_header=header is None)
        batches += assembly.take([record])
        at += 1
    offset = 0
    for batch in batches:
        decoded = decode_batch(batch)
        assert decoded.header.base_offset == offset, f"a batch begins at {decoded.header.base_offset}, not {offset}"
        offset = decoded.header.last_offset + 1


def wire_targets() -> Iterator[Target]:
    """The parsers of the Redis protocol and of records in Kafka."""
    globs = [b"user:*:[0-9]\0user:anna:7", b"a*a*a*b\0" + b"a" * 40, b"[^a-c]?\\*\0x1*", b"*\0key", b"k[\\]]\0k]"]
    state = encode_state(_SECRET, ConnectionState(True, 3, 7))
    header = pack_header(1, 0, 0, 7, 40)
    yield Target("requests of the Redis protocol", _requests, _request, grown_bytes_max=_REQUESTS_BYTES_MAX)
    yield Target("inline command", lambda: [b'set "a b" \'c\' "\\x41"', b"get key", b"'it\\'s' \"\\n\""], split_line)
    yield Target("pattern", lambda: globs, _glob, (Problem,))
    yield Target(
        "fence", lambda: [b"$5\r\nvalue\r\n" + state + b"+OK\r\n" + state, b"+OK\r\n" * 9], _fence, (ValueError,)
    )
    records = [header.ljust(48, b"\1") + b"key of a record and its value"]
    yield Target("records in Kafka", lambda: records, _kafka)
