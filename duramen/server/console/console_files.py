"""The page of the console: files of this package, and the headers under which browsers let it do nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import Final, NamedTuple

from duramen.server.console.verb_forms import verb_forms_to_json

__all__ = ["PAGE_HEADERS", "ConsoleFile", "read_console_files"]

_FOLDER: Final = files("duramen.server.console") / "files"

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    # No text becomes HTML or a script, also where a line of the page would have it so.
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

PAGE_HEADERS: Final = (
    ("content-security-policy", _POLICY),
    ("referrer-policy", "no-referrer"),
    ("x-frame-options", "DENY"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
)


class ConsoleFile(NamedTuple):
    """One file as it is sent."""

    body: bytes
    content_type: str


def read_console_files() -> dict[str, ConsoleFile]:
    """The files by their paths: there is no other way to a file. Blocks: some thirty files, 200 KiB."""
    return {
        "/console/verbs.json": ConsoleFile(verb_forms_to_json(), "application/json; charset=utf-8"),
        **_files(),
    }


def _files() -> dict[str, ConsoleFile]:
    return {
        "/" if each.name == "index.html" else f"/console/{each.name}": ConsoleFile(
            each.read_bytes(), _TYPES[each.name.rpartition(".")[2]]
        )
        for each in _FOLDER.iterdir()
    }
