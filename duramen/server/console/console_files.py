"""The page of the console: files of this package, and the headers under which browsers let it do nothing else."""

from __future__ import annotations

from importlib.resources import files
from typing import Final, NamedTuple

__all__ = ["FILES", "PAGE_HEADERS", "ConsoleFile", "read_console_files"]

FILES: Final = {
    "/": "index.html",
    **{
        f"/console/{name}": name
        for name in (
            "console.css", "icon.svg", "main.js", "kept.js", "feed.js", "server_view.js", "night_page.js",
            "partition_table.js", "past.js", "plot.js", "words.js",
        )
    },
}  # fmt: skip
"""Each path, and the name of its file: there is no other way to a file."""

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
    """The files by their paths. Blocks: some ten files, 50 KiB."""
    folder = files("duramen.server.console") / "files"
    return {
        path: ConsoleFile((folder / name).read_bytes(), _TYPES[name.rpartition(".")[2]]) for path, name in FILES.items()
    }
