"""What the commands on certificates print. A command imports it when it runs: it brings `cryptography`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from duramen.certificates.facts import CertificateFacts
from duramen.certificates.folder import Rotation
from duramen.certificates.inspection import CertificateStatus
from duramen.certificates.names import files_of
from duramen.cli.terminal.exits import ERROR, OK
from duramen.cli.terminal.output import say, say_json

__all__ = ["say_finished", "say_made", "say_rotation", "say_statuses", "say_step"]


def say_made(facts: CertificateFacts, json: bool) -> None:
    """A certificate that was made, and its key."""
    key = files_of(facts.file.parent, facts.file.stem).key
    if json:
        say_json({**_fields(facts), "key": str(key)})
        return
    say(f"{facts.file}, {key}: {_title(facts)}, valid to {facts.valid_to:%Y-%m-%d}")


def say_step(folder: Path, json: bool) -> None:
    """What follows on a new CA."""
    if not json:
        where = f"--dir {quote(str(folder))}"
        say(f"next: bring {folder / 'ca.crt'} to all machines; `duramen cert rotate {where}`; bring the new files;")
        say(f"      then `duramen cert rotate --ca --finish {where}`")


def say_finished(facts: CertificateFacts, json: bool) -> None:
    """The CA that is the only one now."""
    if json:
        say_json(_fields(facts))
    else:
        say(f"{facts.file}: {_title(facts)} alone is trusted, valid to {facts.valid_to:%Y-%m-%d}")


def say_rotation(rotation: Rotation, folder: Path, json: bool) -> None:
    """All that was reissued, and what was not."""
    for facts in rotation.reissued:
        say_made(facts, json)
    if json:
        say_json({"reissued": len(rotation.reissued), "kept": list(rotation.kept)})
        return
    if rotation.kept:
        say(f"kept, signed by another CA: {', '.join(rotation.kept)}")
    if not rotation.reissued:
        say(f"{folder} has no certificate that its CA signed: nothing was reissued")


def say_statuses(statuses: Sequence[CertificateStatus], json: bool) -> int:
    """Every certificate with what is wrong. Returns the exit code."""
    for status in statuses:
        if json:
            fields: dict[str, Any] = {"file": str(status.file)} if status.facts is None else _fields(status.facts)
            found = {"problems": list(status.problems), "warnings": list(status.warnings)}
            say_json({**fields, "days_left": status.days_left, **found})
        else:
            _say_status(status)
    return ERROR if any(status.problems for status in statuses) else OK


def _say_status(status: CertificateStatus) -> None:
    facts = status.facts
    if facts is None:
        say(f"{status.file}")
    else:
        left = "expired" if status.days_left is not None and status.days_left < 0 else f"{status.days_left:,} days left"
        say(f"{status.file}: {_title(facts)}")
        if facts.hosts:
            say(f"  hosts        {', '.join(facts.hosts)}")
        say(f"  issuer       {facts.issuer}")
        say(f"  valid        {facts.valid_from:%Y-%m-%d %H:%M} to {facts.valid_to:%Y-%m-%d %H:%M} UTC, {left}")
        say(f"  fingerprint  {facts.fingerprint}")
    for problem in status.problems:
        say(f"  PROBLEM      {problem}")
    for warning in status.warnings:
        say(f"  warning      {warning}")


def _title(facts: CertificateFacts) -> str:
    return f"{'CA' if facts.kind == 'ca' else facts.kind} {facts.name}"


def _fields(facts: CertificateFacts) -> dict[str, Any]:
    return {
        "file": str(facts.file),
        "kind": facts.kind,
        "name": facts.name,
        "hosts": list(facts.hosts),
        "issuer": facts.issuer,
        "valid_from": facts.valid_from.isoformat(),
        "valid_to": facts.valid_to.isoformat(),
        "sha256": facts.fingerprint,
    }
