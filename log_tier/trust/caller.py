"""Who calls: what a connection has proved, and the rights that follow from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from log_tier.model.identifiers import Offset
from log_tier.trust.rights import Rights

__all__ = ["Caller", "Proof"]

Proof = Literal["nothing", "password", "token", "certificate", "server"]
"""How a caller proved itself. `server`: by a certificate of a server of this cluster."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller at one version of the catalog."""

    name: str
    """The user's name; the server's for proof by `server`; empty for proof by `nothing`."""
    proof: Proof
    rights: Rights
    credential: str = field(default="", repr=False)
    """By what a proof by `token` or `password` is still good: the token's id, the password's hash of then."""

    @property
    def version(self) -> Offset:
        """The version of the catalog whose grants these are."""
        return self.rights.version

    def __str__(self) -> str:
        return f"user {self.name}" if self.name else "nobody"
