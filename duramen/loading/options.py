"""The options of a load, and the format of a file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from duramen.loading.errors import FileRefused
from log_tier.model.errors import InvalidRequest
from log_tier.rows.definition import TableDefinition

__all__ = ["FORMATS", "KEY_SEPARATOR", "FileFormat", "LoadOptions", "RowOptions", "format_of"]

FileFormat = Literal["csv", "jsonl", "parquet", "arrow"]

FORMATS: Final[tuple[FileFormat, ...]] = get_args(FileFormat)

KEY_SEPARATOR: Final = "/"

_SUFFIXES: Final[dict[str, FileFormat]] = {
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
}


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How rows become keys and values. All of it decides what is written, so all of it names the producer."""

    key_columns: Sequence[str]
    """Their texts, joined by `key_separator`, are a row's key."""
    key_separator: str = KEY_SEPARATOR
    """Must not occur in any key column but the last, so that two rows share a key only if they share all columns."""
    value_column: str | None = None
    """None: the value is the whole row as JSON."""
    numbers: bool = False
    """CSV only: fields whose text is a JSON number become numbers."""
    delimiter: str = ","
    """CSV only: one character."""

    def __post_init__(self) -> None:
        if not self.key_columns:
            raise InvalidRequest("name at least one key column")
        if len(set(self.key_columns)) < len(self.key_columns):
            raise InvalidRequest(f"the key columns name one twice: {', '.join(self.key_columns)}")
        if len(self.key_columns) > 1 and not self.key_separator:
            raise InvalidRequest("several key columns need a separator between them")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise InvalidRequest(f"a delimiter is one character, and no quote or line end, not {self.delimiter!r}")

    def digest(self) -> str:
        """A short name for exactly these options."""
        text = json.dumps({**asdict(self), "key_columns": list(self.key_columns)}, sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class RowOptions:
    """Of a load into a table of rows, whose keys and values follow from its schema."""

    definition: TableDefinition
    """Rows are written by its newest schema."""
    delimiter: str = ","
    """CSV only: one character."""

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise InvalidRequest(f"a delimiter is one character, and no quote or line end, not {self.delimiter!r}")

    def digest(self) -> str:
        """A short name for exactly these options. Another schema makes another load of the same file."""
        text = f"rows {self.definition.schemas[-1].number} {self.delimiter}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def format_of(path: Path) -> FileFormat:
    """The format by a file's name: `flights.csv`, `flights.csv.gz`, … Raises `FileRefused`."""
    suffixes = path.suffixes
    if suffixes and suffixes[-1] == ".gz":
        suffixes = suffixes[:-1]
    found = _SUFFIXES.get(suffixes[-1].lower()) if suffixes else None
    if found is None:
        known = ", ".join(_SUFFIXES)
        raise FileRefused(
            f"the name of {path} does not tell its format: it ends in none of {known} (nor these with .gz); "
            f"say --format {' or '.join(FORMATS)}",
            file=str(path),
        )
    return found
