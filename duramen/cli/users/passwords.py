"""A new password: typed twice on a terminal, or read from a file or the standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.secret_files import read_secret_file

__all__ = ["new_password"]

_LINE_CHARACTERS_MAX = 4096


def new_password(user: str, file: Path | None) -> str:
    """The new password of a user. Raises `InvalidRequest` where there is none, and for a file that others can read."""
    if file is not None:
        password = read_secret_file(file)
    elif sys.stdin.isatty():
        whose = f"New password of {user}" if user else "New password"
        password = typer.prompt(whose, hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline(_LINE_CHARACTERS_MAX).rstrip("\r\n")
    if not password:
        raise InvalidRequest("the password is empty: type one, or give it by --password-file or the standard input")
    return password
