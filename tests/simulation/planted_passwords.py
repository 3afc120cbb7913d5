"""Bugs to plant where passwords are checked: those of another time, and guesses that cost nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from log_tier.access import gate, shown_tables
from log_tier.access.attempts import Attempts
from log_tier.access.authenticator import Authenticator
from log_tier.access.passwords import Passwords
from log_tier.model.identifiers import Offset
from log_tier.trust.caller import Caller
from log_tier.trust.proofs import why_void
from log_tier.trust.users import TrustState
from simulation.planted import Patches

__all__ = ["PLANTED_IN_PASSWORDS"]


def _open_calls_outlive_a_password() -> Patches:
    def void(trust: TrustState, caller: Caller, version: Offset, wall_ms: int = 0) -> str:
        is_let_on = caller.proof == "password" and caller.name in trust.users
        return "" if is_let_on else why_void(trust, caller, version, wall_ms)

    return [(module, "why_void", void) for module in (gate, shown_tables)]


def _found_once_is_found_for_ever() -> Patches:
    """What a header was found to be counts on, whatever the catalog holds by now."""
    inner = Authenticator.by_header

    async def remembered(self: Authenticator, header: str, *, address: str = "") -> Caller:
        if not header.startswith("Basic "):
            return await inner(self, header, address=address)
        found = vars(self).setdefault("_planted", {})
        if header not in found:
            found[header] = await inner(self, header, address=address)
        known: Caller = found[header]
        user = self._gate.trust.users.get(known.name)
        return known if user is None else self._gate.caller(known.name, known.proof, credential=user.password)

    return [(Authenticator, "by_header", remembered)]


def _hash_of_the_first_login_is_kept() -> Patches:
    """Each server goes by the hash that a user had when it first logged in there."""
    inner = Authenticator.by_password

    async def by_password(self: Authenticator, name: str, password: str, *, address: str = "") -> Caller:
        hashes = vars(self).setdefault("_planted_hashes", {})
        user = self._gate.trust.users.get(name)
        if user is not None and name not in hashes:
            hashes[name] = user.password
        if user is None or not await self._passwords.match(hashes[name], password):
            return await inner(self, name, password, address=address)
        return self._gate.caller(name, "password", credential=user.password)

    return [(Authenticator, "by_password", by_password)]


def _no_password_is_any_password() -> Patches:
    inner = Passwords.match

    async def match(self: Passwords, password_hash: str, password: str, **how: Any) -> bool:
        return await inner(self, password_hash, password, **how) or password_hash == ""

    return [(Passwords, "match", match)]


def _guesses_are_not_counted() -> Patches:
    return [(Attempts, "failed", lambda self, name, address: None)]


PLANTED_IN_PASSWORDS: Final[dict[str, Callable[[], Patches]]] = {
    "what is open outlives its password": _open_calls_outlive_a_password,
    "a header that was good once stays good": _found_once_is_found_for_ever,
    "a server keeps the hash of a user's first login": _hash_of_the_first_login_is_kept,
    "who has no password is let in with any": _no_password_is_any_password,
    "failed logins are not counted": _guesses_are_not_counted,
}
