"""Sealed JSON: small files that people can read, and in which no flipped bit passes. Pure.

    {"format": "duramen-snapshot", "version": 1, …, "check": "9a71c0f2"}

`check` is the CRC-32C, in hex, of the same text without it. Where a file describes others, its text is exact as well:
`SealedKind.read` accepts only the very bytes that `json.dumps` writes for what it says, so that no flipped bit can pass
as another way to write the same. `docs/FORMATS.md` has the fields of each kind.

**Other versions.** A field that this process does not know is ignored: a newer version added it, and kept the format
version because a reader may do without it. A newer format version is `UnknownFormat`; the reader leaves the file, and
what the file describes, as they are. Every format version keeps `format`, `version` and `check` as they are here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import google_crc32c

from log_tier.model.errors import Damaged, DuramenError, InvalidRequest, UnknownFormat

__all__ = ["SealedKind"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SealedKind:
    """One kind of file, and the errors for a file that is not as it should be."""

    format: str
    """The kind's name, in the file's field `format`."""
    version: int
    """The newest that this process reads, and the one that it writes."""
    bytes_max: int
    """Longer ones are not looked at."""
    damage: type[Damaged]
    remedy: str
    """The advice in the error for a damaged file."""
    upgrade: str
    """The advice in the error for a file of a newer version."""
    indent: int | None = 1
    """None: all on one line."""
    is_cache: bool = False
    """Can it be made again? Then a file of a newer version whose checksum does not hold is damage, and no doubt."""
    foreign: Callable[[str], DuramenError] | None = None
    """The error for a file of another kind, by its name; None: that is damage."""

    def write(self, fields: Mapping[str, Any]) -> bytes:
        """The file's bytes, ASCII: format, version, `fields` in their order, check."""
        return self._sealed({"format": self.format, "version": self.version, **fields})

    def parse(self, data: bytes, where: str) -> dict[str, Any]:
        """The fields of a file whose checksum holds, those that this process does not know included. `where`: which
        file, for people.

        Raises `UnknownFormat` for one of a newer version, `damage` or what `foreign` gives for whatever else.
        """
        try:
            document = json.loads(data) if len(data) <= self.bytes_max else None
        except (ValueError, RecursionError) as error:
            raise self._damaged(where, f"cannot be read ({error})") from error
        if not isinstance(document, dict) or document.get("format") != self.format:
            raise self._damaged(where, f"is no {self.format} manifest") if self.foreign is None else self.foreign(where)
        version, check = document.get("version"), document.pop("check", None)
        if not isinstance(check, str) or not check.isascii():
            check = None  # nobody wrote that, and what no text can hold must not get into a message
        found = check if self._is_as_written(data, check) else self._check(document)
        wrong = f"says its checksum is {check}, its text gives {found}"
        if type(version) is int and version > self.version and (check == found or not self.is_cache):
            doubt = "" if check == found else f" (or it is damaged: it {wrong})"
            raise UnknownFormat(
                f"{where} has format version {version}, this process reads version {self.version}: "
                f"{self.upgrade}{doubt}",
                file=where,
            )
        if check != found:
            raise self._damaged(where, wrong)
        if type(version) is not int or version < 1:
            raise self._damaged(where, f"has the format version {version!r}, which is none")
        return document

    def build(self, document: dict[str, Any], where: str, made: Callable[[dict[str, Any]], T]) -> T:
        """The value that `made` builds of the fields. Raises `damage` where they do not fit.

        `made` raises `KeyError`, `TypeError`, `ValueError`, `OverflowError` or `InvalidRequest` for that, and ignores
        other fields.
        """
        try:
            return made(document)
        except (KeyError, TypeError, ValueError, OverflowError, InvalidRequest) as error:
            version = document["version"]
            raise self._damaged(where, f"does not have the fields of version {version} ({error!r})") from error

    def read(self, data: bytes, where: str, made: Callable[[dict[str, Any]], T], text: Callable[[T], bytes]) -> T:
        """The value that `made` builds of the fields of an exact text. `text` must write the same fields again, as far
        as this process knows them. Raises as `parse` and `build` do.
        """
        document = self.parse(data, where)
        value = self.build(document, where, made)
        exact = self._sealed(document) == data
        known = {name: field for name, field in json.loads(text(value)).items() if name not in ("version", "check")}
        if not exact or not _says_the_same(document, known):
            raise self._damaged(where, "is not written as manifests are")
        return value

    def _damaged(self, where: str, what: str) -> Damaged:
        return self.damage(f"{where} {what}: {self.remedy}", file=where)

    def _is_as_written(self, data: bytes, check: object) -> bool:
        """Whether the text itself, without its check, gives that checksum: then it need not be written again for it."""
        seal, end = self._seal(str(check)), self._end
        return data.endswith(seal) and self._sum(data[: -len(seal)] + end) == check

    def _sealed(self, document: Mapping[str, Any]) -> bytes:
        """The text of a document with the check of its text, and a line's end."""
        text = self._text(document)
        return text.removesuffix(self._end) + self._seal(self._sum(text))

    def _seal(self, check: str) -> bytes:
        """The end of a text with that check."""
        separator = ", " if self.indent is None else ",\n" + " " * self.indent
        return f'{separator}"check": "{check}"'.encode() + self._end + b"\n"

    @property
    def _end(self) -> bytes:
        return b"}" if self.indent is None else b"\n}"

    def _text(self, document: Mapping[str, Any]) -> bytes:
        return json.dumps(document, indent=self.indent).encode("ascii")

    def _check(self, document: Mapping[str, Any]) -> str:
        return self._sum(self._text(document))

    def _sum(self, text: bytes) -> str:
        return f"{google_crc32c.value(text):08x}"


def _says_the_same(found: object, known: object) -> bool:
    """Whether a document's value is the known one, apart from fields that only one of them has."""
    if isinstance(found, dict) and isinstance(known, dict):
        return all(_says_the_same(found[name], field) for name, field in known.items() if name in found)
    if isinstance(found, list) and isinstance(known, list):
        return len(found) == len(known) and all(map(_says_the_same, found, known))
    return type(found) is type(known) and found == known
