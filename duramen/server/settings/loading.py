"""From a file, the environment and flags to settings; errors that say which key in which file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsError

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.masked_url import is_secret_name, mask_url

__all__ = ["load_settings"]

S = TypeVar("S", bound=BaseSettings)


def load_settings(kind: type[S], file: Path | None, flags: Mapping[str, Any]) -> S:
    """The settings of a role. `flags`: those that were given; they win over the environment, which wins over `file`.

    Raises `InvalidRequest` naming the key and the file.
    """
    given = _from_file(kind, file) if file is not None else {}
    try:
        environment = EnvSettingsSource(kind)()
        return kind.model_validate({**given, **environment, **flags})
    except ValidationError as error:
        raise InvalidRequest(_message(kind, file, error)) from error
    except SettingsError as error:
        raise InvalidRequest(f'{error}: a list is given as JSON, as in ["/bulk"]') from error


def _from_file(kind: type[BaseSettings], file: Path) -> dict[str, Any]:
    try:
        with open(file, "rb") as opened:
            given = tomllib.load(opened)
    except (ValueError, RecursionError) as error:  # also what is no UTF-8, and a number of 5,000 digits
        raise InvalidRequest(f"{file} is no TOML: {error}") from error
    unknown = sorted(set(given) - set(kind.model_fields))
    if unknown:
        raise InvalidRequest(
            f"{file} has the key {unknown[0]!r}, which this role does not know; it knows "
            f"{', '.join(sorted(kind.model_fields))}"
        )
    return given


def _message(kind: type[BaseSettings], file: Path | None, error: ValidationError) -> str:
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"]) or "?"
    prefix = str(kind.model_config.get("env_prefix", "")).upper()
    where = f"{file}, {prefix}{key.upper()} or --{key.replace('_', '-')}" if file else f"--{key.replace('_', '-')}"
    return f"the setting {key} ({where}) {_shown(key, first.get('input'))}: {first['msg']}"


def _shown(key: str, given: object) -> str:
    """What a message says of a value: nothing of a secret's, and a URL without its secrets."""
    if is_secret_name(key):
        return "holds a secret, which is not shown"
    return f"is {(mask_url(given) if isinstance(given, str) else given)!r}"
