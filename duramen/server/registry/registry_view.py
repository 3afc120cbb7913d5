"""From a path and the map to the answer, for one caller. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote

from duramen.server.registry.compatibility import checked_schema
from duramen.server.registry.registry_answer import (
    NOT_HERE,
    SCHEMA_NOT_FOUND,
    SUBJECT_NOT_FOUND,
    VERSION_INVALID,
    VERSION_NOT_FOUND,
    RegistryAnswer,
    refused,
)
from duramen.server.registry.subjects import VALUE_SUFFIX, Subject, SubjectIndex
from log_tier.rows.schema import NumberedSchema

__all__ = ["CHECKS", "TREES", "RegistryView"]

TREES: Final = ("/schemas", "/subjects", "/config", "/mode")
"""The first segments of all paths that are read."""

CHECKS: Final = "/compatibility"
"""The first segment of those to which a schema is sent."""

_SHOWN_MAX: Final = 60
"""Characters of what a client has sent, in a message."""

_NUMBER: Final = re.compile(r"[0-9]{1,10}", re.ASCII)
_VERSION_MAX: Final = (1 << 31) - 1
_FIELDS_MAX: Final = 20
"""Parameters of a query."""


class RegistryView(NamedTuple):
    """What a registry shows to one caller."""

    subjects: SubjectIndex
    schemas: Mapping[int, str]
    """By number: all of the cluster, as canonical texts."""
    shows: Callable[[str], bool] | None
    """Whether a table is shown to the caller; None: everything is, and so are the schemas of tables that are gone."""

    def answer(self, path: str, query: str) -> RegistryAnswer:
        """The answer to `GET`. O(1), and O(subjects) for lists of them."""
        asked = _asked(query)
        if isinstance(asked, RegistryAnswer):
            return asked
        match _parts(path):
            case ["schemas", "types"]:
                return RegistryAnswer(200, ["AVRO"])
            case ["schemas", "ids", number, *what] if _NUMBER.fullmatch(number):
                return self._schema(int(number), what, asked)
            case ["subjects"]:
                names = (each.name for each in self._shown() if each.name.startswith(asked.get("subjectPrefix", "")))
                return _page(list(names), asked)
            case ["subjects", name, "versions", *what]:
                return self._versions(name, what, asked)
            case ["config"]:
                return RegistryAnswer(200, {"compatibilityLevel": "BACKWARD"})
            case ["config", name]:
                found = self._subject(name)
                config = {"compatibilityLevel": "BACKWARD"}
                return found if isinstance(found, RegistryAnswer) else RegistryAnswer(200, config)
            case ["mode"]:
                return RegistryAnswer(200, {"mode": "READONLY"})
            case ["mode", name]:
                found = self._subject(name)
                return found if isinstance(found, RegistryAnswer) else RegistryAnswer(200, {"mode": "READONLY"})
        return _no_path(path)

    def checked(self, path: str, query: str, body: bytes) -> RegistryAnswer:
        """The answer to `POST`: may a schema follow one of a subject, or all of them? O(sizes of the schemas)."""
        asked = _asked(query)
        if isinstance(asked, RegistryAnswer):
            return asked
        match _parts(path):
            case ["compatibility", "subjects", name, "versions"]:
                version = None
            case ["compatibility", "subjects", name, "versions", version]:
                pass
            case _:
                return _no_path(path)
        subject = self._subject(name)
        if isinstance(subject, RegistryAnswer):
            return subject
        against = subject.schemas
        if version is not None:
            found = _at(subject, version)
            if isinstance(found, RegistryAnswer):
                return found
            against = (found[1],)
        return checked_schema(subject, against, body, verbose=asked.get("verbose", "").lower() == "true")

    def _shown(self) -> Iterator[Subject]:
        shows = self.shows
        found = self.subjects.by_name.values()
        return iter(found) if shows is None else (each for each in found if shows(each.table))

    def _subject(self, name: str) -> Subject | RegistryAnswer:
        found = self.subjects.by_name.get(name)
        if found is not None and (self.shows is None or self.shows(found.table)):
            return found
        return refused(
            SUBJECT_NOT_FOUND,
            f"Subject '{_short(name)}' not found. A subject is the topic of a table of rows with '{VALUE_SUFFIX}'; "
            "GET /subjects lists them",
        )

    def _schema(self, number: int, what: Sequence[str], asked: Mapping[str, str]) -> RegistryAnswer:
        owners = [
            each for each in self.subjects.by_number.get(number, ()) if self.shows is None or self.shows(each.table)
        ]
        text = self.schemas.get(number)
        if text is None or not (owners or self.shows is None):
            return refused(SCHEMA_NOT_FOUND, f"Schema {number} not found")
        match what:
            case []:
                document: dict[str, Any] = {"schema": text}
                if asked.get("fetchMaxId", "").lower() == "true":
                    document["maxId"] = self._number_max()
                return RegistryAnswer(200, document)
            case ["schema"]:
                return RegistryAnswer(200, text=text)
            case ["subjects"]:
                return _page([each.name for each in owners], asked)
            case ["versions"]:
                pairs = [{"subject": each.name, "version": _version_of(each, number)} for each in owners]
                return _page(pairs, asked)
        return _no_path(f"schemas/ids/{number}/{'/'.join(what)}")

    def _number_max(self) -> int:
        """The highest number that is shown."""
        if self.shows is None:
            return max(self.schemas, default=0)
        return max((each.schemas[-1].number for each in self._shown()), default=0)

    def _versions(self, name: str, what: Sequence[str], asked: Mapping[str, str]) -> RegistryAnswer:
        subject = self._subject(name)
        if isinstance(subject, RegistryAnswer):
            return subject
        match what:
            case []:
                return _page(list(range(1, len(subject.schemas) + 1)), asked)
            case [version]:
                found = _at(subject, version)
                if isinstance(found, RegistryAnswer):
                    return found
                number, schema = found
                shown = {"subject": subject.name, "version": number, "id": schema.number, "schema": schema.schema.text}
                return RegistryAnswer(200, shown)
            case [version, "schema"]:
                found = _at(subject, version)
                return found if isinstance(found, RegistryAnswer) else RegistryAnswer(200, text=found[1].schema.text)
            case [version, "referencedby"]:
                found = _at(subject, version)
                return found if isinstance(found, RegistryAnswer) else RegistryAnswer(200, [])
        return _no_path(f"subjects/{name}/versions/{'/'.join(what)}")


def _parts(path: str) -> list[str]:
    return [unquote(each) for each in path[1:].removesuffix("/").split("/")]


def _asked(query: str) -> dict[str, str] | RegistryAnswer:
    """The parameters of a query."""
    try:
        return dict(parse_qsl(query, max_num_fields=_FIELDS_MAX))
    except ValueError:
        return refused(400, f"a query has at most {_FIELDS_MAX} parameters")


def _at(subject: Subject, version: str) -> tuple[int, NumberedSchema] | RegistryAnswer:
    """A version by what a client calls it."""
    newest = len(subject.schemas)
    if version in ("latest", "-1"):
        return newest, subject.schemas[-1]
    if not _NUMBER.fullmatch(version) or not 1 <= int(version) <= _VERSION_MAX:
        return refused(
            VERSION_INVALID,
            f"The specified version '{_short(version)}' is not a valid version id. Allowed values are between [1, "
            '2^31-1] and the string "latest"',
        )
    number = int(version)
    if number > newest:
        return refused(VERSION_NOT_FOUND, f"Version {number} not found: {subject.name} has 1 to {newest}")
    return number, subject.schemas[number - 1]


def _version_of(subject: Subject, number: int) -> int:
    return next(version for version, each in enumerate(subject.schemas, 1) if each.number == number)


def _page(found: Sequence[Any], asked: Mapping[str, str]) -> RegistryAnswer:
    """The part of a list that is asked for by `offset` and `limit`. A `limit` below 0, or none: all the rest."""
    offset, limit = asked.get("offset", "0"), asked.get("limit", "-1")
    for name, value in (("offset", offset), ("limit", limit)):
        if not _NUMBER.fullmatch(value.removeprefix("-")):
            return refused(400, f"{name} is a number, not '{_short(value)}'")
    first, most = max(int(offset), 0), int(limit)
    return RegistryAnswer(200, list(found[first:] if most < 0 else found[first : first + most]))


def _no_path(path: str) -> RegistryAnswer:
    return refused(
        NOT_HERE,
        f"there is no /{_short(path.lstrip('/'))} here: of the registry's interface there are /schemas/ids/N, "
        "/schemas/types, /subjects, /subjects/S/versions, /subjects/S/versions/V, /config and /mode, and for POST "
        "/compatibility/subjects/S/versions and …/versions/V",
    )


def _short(text: str) -> str:
    return ascii(text)[1:-1][:_SHOWN_MAX]
