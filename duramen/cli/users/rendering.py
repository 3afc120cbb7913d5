"""What the commands on users print."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from duramen.cli.admin.figures import local_time
from duramen.cli.terminal.output import say, say_json, say_note, say_table
from log_tier.privacy.secret_files import write_secret_file
from router.proto import users_pb2 as pb

__all__ = [
    "keep_token",
    "say_changed",
    "say_quotas",
    "say_roles",
    "say_token",
    "say_user_added",
    "say_users",
    "say_who",
]

_BOUNDS: Final = tuple(field.name for field in pb.QuotaBounds.DESCRIPTOR.fields)


def say_changed(text: str, fields: dict[str, Any], version: int, json: bool) -> None:
    """A change, and the version of the catalog from which it holds."""
    if json:
        say_json({**fields, "version": version})
    else:
        say(f"{text} (version {version} of the catalog)")


def say_user_added(user: str, made: pb.AddUserResponse, token_file: Path | None, *, password: bool, json: bool) -> None:
    """A new user, whose first token is in its file by then."""
    proofs = {"token_file": None if token_file is None else str(token_file), "token_id": made.token_id or None}
    if json:
        say_json({"user": user, **proofs, "expires_ms": made.expires_ms or None, "version": made.version})
        return
    by = f", proved by the token in {token_file}" if token_file is not None else ""
    by += ", proved by a password" if password else ""
    say(f"added user {user}{by} (version {made.version} of the catalog)")
    if not by:
        say_note(f"nothing proves {user} yet: `duramen user token {user}` or `duramen user password {user}` does")


def keep_token(token: str, token_id: str, file: Path) -> None:
    """Write a token that was just made. Where that fails, the error says how to get another one."""
    try:
        write_secret_file(file, token)
    except BaseException:
        say_note(f"the token {token_id} was made and could not be kept: revoke it, and make another one")
        raise


def say_token(user: str, made: pb.AddTokenResponse, token_file: Path | None, json: bool) -> None:
    """A new token: the path of its file, or the token itself and nothing else, for a pipe."""
    if json:
        shown = {"token": made.token} if token_file is None else {"token_file": str(token_file)}
        fields = {"user": user or None, "token_id": made.token_id, **shown, "expires_ms": made.expires_ms or None}
        say_json({**fields, "version": made.version})
    elif token_file is None:
        say(made.token)
        say_note(f"token {made.token_id}, {_until(made.expires_ms)}: it is shown nowhere else")
    else:
        say(f"{token_file}: token {made.token_id}, {_until(made.expires_ms)} (version {made.version} of the catalog)")


def say_users(listed: pb.ListUsersResponse, json: bool) -> None:
    """All users: what proves them, and what they may do."""
    for user in listed.users if json else ():
        tokens = [{"id": token.id, "expires_ms": token.expires_ms or None} for token in user.tokens]
        fields = {"user": user.user, "has_password": user.has_password, "tokens": tokens}
        say_json({**fields, "grants": list(user.grants), "roles": list(user.roles)})
    if json:
        return
    if not listed.users:
        say("no users: everybody may do everything; `duramen user add NAME --grant 'admin *'` makes the first one")
        return
    say_table(
        ["user", "password", "tokens", "grants", "roles"],
        [
            (
                user.user,
                "yes" if user.has_password else "–",
                "\n".join(f"{token.id} {_until(token.expires_ms)}" for token in user.tokens) or "–",
                "\n".join(user.grants) or "–",
                ", ".join(user.roles) or "–",
            )
            for user in listed.users
        ],
    )


def say_roles(listed: pb.ListUsersResponse, json: bool) -> None:
    """All roles, and who has them."""
    held = {role.role: [user.user for user in listed.users if role.role in user.roles] for role in listed.roles}
    if json:
        for role in listed.roles:
            say_json({"role": role.role, "grants": list(role.grants), "users": held[role.role]})
    elif not listed.roles:
        say("no roles: `duramen role add NAME` makes one")
    else:
        rows = [(r.role, "\n".join(r.grants) or "–", ", ".join(held[r.role]) or "–") for r in listed.roles]
        say_table(["role", "grants", "users"], rows)


def say_quotas(listed: pb.ListQuotasResponse, json: bool) -> None:
    """All quotas. As JSON, a bound that there is not is left out."""
    if not json and not listed.quotas:
        say("no quotas: `duramen quota set` makes one")
        return
    rows = []
    for entry in listed.quotas:
        kind = entry.WhichOneof("subject") or ""
        bounds = {field.name: value for field, value in entry.quota.ListFields()}
        if json:
            say_json({kind: getattr(entry, kind), **bounds})
        rows.append((f"{kind} {getattr(entry, kind)}", *(str(bounds.get(name, "–")) for name in _BOUNDS)))
    if not json:
        say_table(["of", *(name.replace("_s", "/s").replace("_", " ") for name in _BOUNDS)], rows)


def say_who(said: pb.WhoAmIResponse, json: bool) -> None:
    """Who calls."""
    if json:
        fields = {"user": said.user or None, "proof": said.proof, "expires_ms": said.expires_ms or None}
        say_json({**fields, "grants": list(said.grants), "roles": list(said.roles), "version": said.version})
        return
    if not said.user:
        say(f"nobody: at version {said.version} of the catalog there is no user, and everybody may do everything")
        return
    until = f", {_until(said.expires_ms)}" if said.expires_ms else ""
    say(f"{said.user}, by {said.proof}{until}, at version {said.version} of the catalog")
    for grant in said.grants:
        say(f"  {grant}")
    if said.roles:
        say(f"  (with the roles {', '.join(said.roles)})")


def _until(expires_ms: int) -> str:
    return f"until {local_time(expires_ms)}" if expires_ms else "for ever"
