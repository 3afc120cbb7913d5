"""From bytes to commands: whole, in pieces, and what is no command at all."""

from __future__ import annotations

import re
import resource
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.resp.raw_client import packed

from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.wire.fallback_parser import FallbackParser, ProtocolError, RespCommand, split_line
from router.endpoints.resp.wire.framing import Framer, lone_command, lone_get, lone_set
from router.endpoints.resp.wire.limits import COMMAND_BYTES_MAX

SAMPLES = [
    packed("GET", "key"),
    packed("SET", "k" * 511, b"\x00\r\n*12345\r\n$"),
    packed("MSET", *(f"k{n}" for n in range(40))),
    packed("ECHO", b"*1234567\r\n$3\r\nabc\r\n"),
    packed("SET", "big", "v" * 5000),
    b"PING\r\n",
    b"set a 'b c'\n",
    b"\r\n",
    b"*0\r\n",
    packed("x" * 10, *["y"] * 120),
]


PIECES = [b"*3\r\n$3\r\n", b"$5\r\n", b"*99999\r\n", b"~99999\r\n", b"%7\r\n", b"#t\r\n", b"_\r\n", b"*1\r\n*1\r\n"]


def commands_of(data: bytes) -> list[list[bytes]]:
    """By the fallback parser alone."""
    fallback = FallbackParser()
    found = fallback.take(data)
    assert fallback.idle, "the samples are whole"
    return found


def test_cut_at_every_byte() -> None:
    data = b"".join(SAMPLES)
    expected = commands_of(data)
    for cut in range(1, len(data)):
        framer = Framer()
        assert framer.take(data[:cut]) + framer.take(data[cut:]) == expected, cut
        assert framer.held_bytes == 0


@settings(max_examples=300, deadline=None)
@given(
    samples=st.lists(st.sampled_from(SAMPLES), min_size=1, max_size=6),
    cuts=st.lists(st.integers(1, 6000), max_size=30),
)
def test_any_pieces(samples: list[bytes], cuts: list[int]) -> None:
    data = b"".join(samples)
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    framer = Framer()
    found = [command for start, end in pairwise(edges) for command in framer.take(data[start:end])]
    assert found == commands_of(data)
    assert framer.held_bytes == 0


def test_byte_by_byte() -> None:
    framer = Framer()
    data = b"".join(SAMPLES)
    found = [command for at in range(len(data)) for command in framer.take(data[at : at + 1])]
    assert found == commands_of(data)


@settings(max_examples=500, deadline=None)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=20),
            st.sampled_from([*SAMPLES, *PIECES]),
        ),
        min_size=1,
        max_size=8,
    )
)  # fmt: skip
def test_garbage_is_commands_or_an_error(pieces: list[bytes]) -> None:
    framer = Framer()
    for piece in pieces:
        try:
            found = framer.take(piece)
            ended = False
        except ProtocolError as error:
            found, ended = list(error.commands), True
        assert all(type(word) is bytes for command in found for word in command)
        assert all(command for command in found)
        if ended:
            return


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*4000000000\r\n", "invalid multibulk length"),
        (packed("PING") + b"*4000000000\r\n", "invalid multibulk length"),
        (b"*2\r\n$3\r\nGET\r\n*4000000000\r\n", "expected '$', got '*'"),
        (b"*1\r\n$4194305\r\n", "invalid bulk length"),
        (b"*2\r\n$03\r\nGET\r\n$1\r\na\r\n", "invalid bulk length"),
        (b"x" * 70_000, "too big inline request"),
        (b"*" + b"1" * 70_000, "too big mbulk count string"),
    ],
)
def test_what_is_too_large(data: bytes, text: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    framer = Framer()
    with pytest.raises(ProtocolError, match=re.escape(text)):
        framer.take(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "64 MiB for a few bytes"


def test_a_set_of_400_million_members_is_a_line_as_for_redis() -> None:
    assert Framer().take(packed("PING") + b"~400000000\r\n") == [[b"PING"], [b"~400000000"]]


def test_a_header_in_two_pieces_is_looked_at_as_a_whole() -> None:
    framer = Framer()
    assert framer.take(packed("PING") + b"*40000") == [[b"PING"]]
    with pytest.raises(ProtocolError, match="invalid multibulk length"):
        framer.take(b"00000\r\n")


def test_the_commands_before_an_error_are_answered() -> None:
    with pytest.raises(ProtocolError) as caught:
        Framer().take(packed("SET", "a", "1") + packed("GET", "a") + b"*1\r\n:1\r\n")
    assert list(caught.value.commands) == [[b"SET", b"a", b"1"], [b"GET", b"a"]]


def test_what_looks_like_huge_arrays_costs_no_more_than_its_bytes() -> None:
    """Every chunk is one for the fallback parser, which looks at each byte once."""
    data = packed(*[b"*1234567"] * 200_000)
    framer, found = Framer(), []
    began = time.process_time()
    for at in range(0, len(data), 4096):
        found += framer.take(data[at : at + 4096])
    assert [len(command) for command in found] == [200_000]
    assert time.process_time() - began < 5, "0.3 s; a parser that began anew with every chunk would need minutes"


def test_a_command_that_never_ends() -> None:
    framer = Framer()
    framer.take(b"*100000\r\n")
    piece = packed("v" * 60_000)[4:]
    taken = 0
    with pytest.raises(ProtocolError, match="at most"):  # noqa: PT012 - which piece it is, is not the point
        while taken <= COMMAND_BYTES_MAX + len(piece):
            assert framer.take(piece) == []
            taken += len(piece)


def test_one_get_with_a_key_of_any_length() -> None:
    for length in range(1, KEY_BYTES_MAX + 1):
        key = b"k" * length
        assert lone_get(packed("GET", key)) == key
    assert lone_get(packed("GET", "")) is None
    assert lone_get(packed("GET", "k" * (KEY_BYTES_MAX + 1))) is None


@pytest.mark.parametrize(
    "data",
    [packed("GET"), packed("GET", "a", "b"), packed("SET", "a", "b"), packed("GET", "abc")[:-3], packed("GET", "a") * 2,
     b"*2\r\n$3\r\nGET\r\n$01\r\na\r\n", b"*2\r\n$3\r\nGET\r\n$\r\na\r\n"],
)  # fmt: skip
def test_what_is_not_one_get(data: bytes) -> None:
    assert lone_get(data) is None


@pytest.mark.parametrize(
    "data",
    [
        packed("PING"),
        packed("INCR", "counter"),
        packed("SET", "k" * 511, ""),
        packed("SET", "k" * 9, "v" * 3000),
        packed("SET", "k", "\r", "EX", "10"),
    ],
)
def test_one_command(data: bytes) -> None:
    command = lone_command(data)
    assert command is not None
    assert [command] == commands_of(data)


def cut_and_mended(whole: bytes) -> list[bytes]:
    """Everything that has one byte more, less, or another one than a command has."""
    found = [whole[:at] for at in range(len(whole))]
    found += [whole[:at] + whole[at + 1 :] for at in range(len(whole))]
    for byte in b"0129\r\n$*-k":
        found += [whole[:at] + bytes([byte]) + whole[at:] for at in range(len(whole) + 1)]
        found += [whole[:at] + bytes([byte]) + whole[at + 1 :] for at in range(len(whole))]
    return found


def test_what_is_not_one_get_or_set() -> None:
    """By the fallback parser it would not be that command, or not one alone."""
    taken = 0
    for changed in cut_and_mended(packed("GET", "k12")) + cut_and_mended(packed("set", "k12", "value")):
        key, pair = lone_get(changed), lone_set(changed)
        if key is not None:
            assert [[b"GET", key]] == commands_of(changed)
        if pair is not None:
            assert [[b"set", *pair]] == commands_of(changed)
        taken += key is not None or pair is not None
    assert taken > 20, "other keys and other values are other commands"
    for sample in (packed("SET", "a", "b\r\nc"), packed("SET", "a", "v" * 4096), packed("SET", "a", "b") * 2):
        assert lone_set(sample) is None
    assert lone_set(packed("SET", "k" * 9, "v" * 3000)) == (b"k" * 9, b"v" * 3000)


def test_what_is_not_one_command() -> None:
    """By the fallback parser it would not be that command, or not one alone; or it is one that is rare."""
    samples = [b"", b"\r\n", b"PING\r\n", b"*0\r\n", b"*-1\r\n", packed("INCR", "a") * 2, packed("a", "b\r\nc")]
    samples += [packed(*"abcdef"), packed("a", "v" * 4096), packed("MSET", *"abcd") + b"x", packed(*"abcd") + b"\r\n"]
    samples += [packed(*"abcd") + b"\r\nJUNK", packed(*"abcde") + b"\r\n", packed(*"abcde") * 2, b"*1\r\n$01\r\na\r\n"]
    for sample in samples:
        assert lone_command(sample) is None, sample
    taken = 0
    for changed in cut_and_mended(packed("SET", "k12", "value")) + cut_and_mended(packed("INCR", "k" * 10)):
        command = lone_command(changed)
        if command is not None:
            taken += 1
            assert [command] == commands_of(changed)
    assert taken > 20, "other keys and other values are other commands"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"", []),
        (b"  a\tb  ", [b"a", b"b"]),
        (rb'"\n\r\t\b\a\x00\q\"" x', [b'\n\r\t\b\a\x00q"', b"x"]),
        (rb"'a\'b' 'c\n'", [b"a'b", rb"c\n"]),
        (b'"a"b', None),
        (b'"a', None),
        (b"'a\\", None),
    ],
)
def test_lines(line: bytes, words: list[bytes] | None) -> None:
    assert split_line(line) == words


@pytest.mark.parametrize("chunk_bytes", [1000, 1001, 4096, 65_536])
def test_a_pipeline_in_chunks_is_for_the_quick_parser(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    """Chunks end anywhere in a command. The fallback parser looks at the pieces that are left, and at nothing else."""
    commands = [[b"INCR", b"pipeline:%d" % number] for number in range(5000)]
    data = b"".join(packed(*command) for command in commands)
    fallback_bytes = 0
    original = FallbackParser.take

    def counted(self: FallbackParser, chunk: bytes) -> list[RespCommand]:
        nonlocal fallback_bytes
        fallback_bytes += len(chunk)
        return original(self, chunk)

    monkeypatch.setattr(FallbackParser, "take", counted)
    framer = Framer()
    chunks = [data[at : at + chunk_bytes] for at in range(0, len(data), chunk_bytes)]
    assert [command for chunk in chunks for command in framer.take(chunk)] == commands
    assert fallback_bytes <= 64 * len(chunks)
