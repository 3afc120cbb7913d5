"""What tantivy raises where its files are not what it wrote: errors of three kinds, and panics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from log_tier.model.errors import DuramenError

__all__ = ["TextDamaged", "naming_damage"]


class TextDamaged(Exception):
    """The files of a text index cannot be read or written. It is a cache of the replica, and is built again."""


@contextmanager
def naming_damage() -> Iterator[None]:
    """Raise `TextDamaged` for what tantivy raises in the block. Errors of ours pass."""
    try:
        yield
    except (DuramenError, TextDamaged):
        raise
    except (ValueError, OSError, LookupError) as error:
        raise TextDamaged(str(error)) from error
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise TextDamaged(f"tantivy panicked: {error}") from error
