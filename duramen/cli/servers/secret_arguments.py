"""Secrets among the arguments of a server, which all users of its machine can read while it runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from log_tier.privacy.masked_url import has_secret, is_secret_name

__all__ = ["secret_arguments", "warn_of_secret_arguments"]

logger = logging.getLogger(__name__)

_OPTION: Final = "--"


def secret_arguments(arguments: Sequence[str]) -> list[str]:
    """The names of the options whose values hold a secret, in their order. Pure."""
    found: list[str] = []
    option = ""
    for argument in arguments:
        value = argument
        if argument.startswith(_OPTION):
            option, equals, value = argument.partition("=")
            if not equals:
                continue
        # A name alone may say where a key is, a password is one.
        is_secret = is_secret_name(option) and "password" in option
        if option and option not in found and value and (is_secret or ("://" in value and has_secret(value))):
            found.append(option)
    return found


def warn_of_secret_arguments(arguments: Sequence[str]) -> None:
    """Log one warning if there are any; it names the options alone."""
    if found := secret_arguments(arguments):
        logger.warning(
            "%s: all users of this machine can read this secret among the arguments of the process; give it by the "
            "environment or a file (see OPERATIONS)",
            ", ".join(found),
        )
