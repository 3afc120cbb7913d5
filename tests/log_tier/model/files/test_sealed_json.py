"""Sealed JSON: exact bytes, and no flipped bit that passes."""

from __future__ import annotations

from typing import Any, Final

import pytest

from log_tier.model.errors import Damaged, DuramenError, ForeignFolder, UnknownFormat
from log_tier.model.files.sealed_json import SealedKind

NOTE: Final = SealedKind("note", 1, bytes_max=200, damage=Damaged, remedy="write it again", upgrade="upgrade")
BYTES: Final = b"""{
 "format": "note",
 "version": 1,
 "text": "hello",
 "check": "44fbdac6"
}
"""


def made(fields: dict[str, Any]) -> str:
    if type(fields["text"]) is not str:
        raise TypeError("text")
    return str(fields["text"])


def text(value: str) -> bytes:
    return NOTE.write({"text": value})


def test_the_bytes_are_these() -> None:
    assert NOTE.write({"text": "hello"}) == BYTES
    assert NOTE.read(BYTES, "here", made, text) == "hello"


@pytest.mark.parametrize("at", range(len(BYTES)))
def test_no_flipped_bit_passes(at: int) -> None:
    for bit in range(8):
        flipped = BYTES[:at] + bytes([BYTES[at] ^ 1 << bit]) + BYTES[at + 1 :]
        with pytest.raises((Damaged, UnknownFormat)):
            NOTE.read(flipped, "here", made, text)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", r"here cannot be read .*: write it again"),
        (b"[1]", "here is no note manifest"),
        (BYTES.replace(b"note", b"mote"), "here is no note manifest"),
        (BYTES.replace(b"hello", b"hallo"), "here says its checksum is 44fbdac6, its text gives "),
        (BYTES.replace(b" ", b""), "here is not written as manifests are"),
        (BYTES + b" " * 200, "here is no note manifest"),
        (BYTES.replace(b"44fbdac6", b"\\ud800"), "here says its checksum is None, its text gives 44fbdac6"),
        (NOTE.write({"text": 5}), r"here does not have the fields of version 1 \(TypeError"),
        (NOTE.write({}), r"here does not have the fields of version 1 \(KeyError"),
    ],
)
def test_what_it_is_not_is_said(data: bytes, said: str) -> None:
    with pytest.raises(Damaged, match=said):
        NOTE.read(data, "here", made, text)


def test_a_newer_version_is_distinguished_from_damage() -> None:
    newer = SealedKind("note", 2, bytes_max=200, damage=Damaged, remedy="", upgrade="")
    with pytest.raises(UnknownFormat, match=r"has format version 2, this process reads version 1: upgrade$"):
        NOTE.parse(newer.write({"text": "hello"}), "here")
    with pytest.raises(UnknownFormat, match=r"upgrade \(or it is damaged: it says its checksum is 44fbdac6"):
        NOTE.parse(BYTES.replace(b'"version": 1', b'"version": 3'), "here")


def test_a_file_of_another_kind_may_be_no_damage() -> None:
    def foreign(where: str) -> DuramenError:
        return ForeignFolder(f"{where} is not ours")

    kind = SealedKind("x", 1, bytes_max=200, damage=Damaged, remedy="", upgrade="", indent=None, foreign=foreign)
    with pytest.raises(ForeignFolder, match="here is not ours"):
        kind.parse(BYTES, "here")
    assert kind.write({"n": 1}).startswith(b'{"format": "x", "version": 1, "n": 1, "check": "')


def test_a_number_that_is_too_large_for_its_field_is_damage() -> None:
    """`1e999` is JSON, and infinite in Python."""
    with pytest.raises(Damaged, match=r"fields of version 1 \(OverflowError"):
        NOTE.build({"version": 1, "count": float("inf")}, "here", lambda fields: int(fields["count"]))
