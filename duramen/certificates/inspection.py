"""What a folder of certificates holds, and what is wrong with it. Changes nothing, and needs no key."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Final

from cryptography import x509

from duramen.certificates.facts import CertificateFacts, facts_of
from duramen.certificates.lifetimes import DAYS_WARNED
from duramen.certificates.names import AUTHORITY, PairFiles, files_of, leaf_names
from duramen.certificates.pair import is_interrupted
from duramen.certificates.pem import parse_certificate, parse_certificates
from duramen.certificates.signing import is_signed_by
from log_tier.access.client.pem_files import read_pem
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import CertificateInvalid, InvalidRequest

__all__ = ["CertificateStatus", "inspect_folder"]

_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True)
class CertificateStatus:
    """One certificate of a folder."""

    file: Path
    """Its file; of the CAs of a bundle the same."""
    facts: CertificateFacts | None
    """What it says; None if it cannot be read."""
    days_left: int | None
    """Whole days that it is still valid, below 0 if it has expired; None if it cannot be read."""
    problems: tuple[str, ...]
    """Why it cannot be used, or should not be."""
    warnings: tuple[str, ...]
    """What has to be done soon."""


def inspect_folder(folder: Path, clock: Clock = SYSTEM_CLOCK) -> list[CertificateStatus]:
    """The CAs of a folder, the one that signs first, then its certificates by name. Raises `InvalidRequest` if there is
    no folder, or one without a certificate.
    """
    if not folder.is_dir():
        raise InvalidRequest(f"there is no folder {folder}: `duramen cert init --dir {quote(str(folder))}` makes it")
    now = datetime.fromtimestamp(clock.wall_ms() // 1000, tz=UTC)
    return _Inspection(folder, now).run()


class _Inspection:
    """One look at a folder, at one time."""

    def __init__(self, folder: Path, now: datetime) -> None:
        self._folder = folder
        self._now = now
        self._authorities: list[x509.Certificate] = []

    def run(self) -> list[CertificateStatus]:
        files = files_of(self._folder, AUTHORITY)
        names = leaf_names(self._folder)
        found: list[CertificateStatus] = []
        if files.certificate.exists() or files.key.exists():
            found += self._inspect_authorities(files)
        elif not names:
            raise InvalidRequest(f"{self._folder} holds no certificate: `{self._command('init')}` makes a CA")
        return found + [self._inspect_leaf(files_of(self._folder, name), name) for name in names]

    def _inspect_authorities(self, files: PairFiles) -> list[CertificateStatus]:
        try:
            self._authorities = parse_certificates(read_pem(files.certificate), files.certificate)
            statuses = []
            for place, certificate in enumerate(self._authorities):
                facts = facts_of(certificate, files.certificate)
                problems, warnings = ([], []) if place else self._time_of(facts, "rotate --ca")
                if facts.kind != "ca":
                    problems.append("it is no CA")
                if place:
                    warnings.append(
                        f"an old CA, trusted during a change: `{self._command('rotate')}` reissues what it signed, "
                        f"`{self._command('rotate --ca --finish')}` ends the change"
                    )
                elif files.key.exists():
                    # A machine that only verifies has no key of the CA, and should not.
                    problems += self._problems_of_pair(files)
                statuses.append(self._status(facts, problems, warnings))
        except CertificateInvalid as error:
            self._authorities = []
            return [CertificateStatus(files.certificate, None, None, (error.message,), ())]
        return statuses

    def _inspect_leaf(self, files: PairFiles, name: str) -> CertificateStatus:
        try:
            certificate = parse_certificate(read_pem(files.certificate), files.certificate)
            facts = facts_of(certificate, files.certificate)
        except CertificateInvalid as error:
            return CertificateStatus(files.certificate, None, None, (error.message,), ())
        problems, warnings = self._time_of(facts, f"rotate {name}")
        problems += self._problems_of_pair(files)
        signers = [place for place, ca in enumerate(self._authorities) if is_signed_by(certificate, ca)]
        if not signers:
            problems.append("it is not signed by this folder's CA" if self._authorities else "no CA to verify it with")
        elif signers[0] > 0:
            warnings.append(f"the old CA signed it: `{self._command(f'rotate {name}')}` reissues it")
        if signers and facts.name != name:
            problems.append(f"it is the certificate of {facts.name!r}, in a file of another name")
        return self._status(facts, problems, warnings)

    def _time_of(self, facts: CertificateFacts, words: str) -> tuple[list[str], list[str]]:
        """What its time brings: problems and warnings. `words`: the command that reissues it."""
        if self._now > facts.valid_to:
            return [f"it expired on {facts.valid_to:%Y-%m-%d %H:%M} UTC: `{self._command(words)}`"], []
        if self._now < facts.valid_from:
            return [f"it is not valid before {facts.valid_from:%Y-%m-%d %H:%M} UTC: look at the clock"], []
        if facts.valid_to - self._now < timedelta(days=DAYS_WARNED):
            return [], [f"it expires in less than {DAYS_WARNED} days: `{self._command(words)}`"]
        return [], []

    def _problems_of_pair(self, files: PairFiles) -> list[str]:
        problems = []
        try:
            if is_interrupted(files):
                problems.append(
                    "a change of its files was interrupted: the next command that changes the folder completes it"
                )
        except CertificateInvalid as error:
            problems.append(error.message)
        try:
            mode = files.key.stat().st_mode & 0o777
        except FileNotFoundError:
            mode = 0
        if mode & _OTHERS:
            problems.append(f"{files.key} can be used by others (mode {mode:04o}): chmod 600 {quote(str(files.key))}")
        return problems

    def _status(self, facts: CertificateFacts, problems: list[str], warnings: list[str]) -> CertificateStatus:
        days = (facts.valid_to - self._now).days
        return CertificateStatus(facts.file, facts, days, tuple(problems), tuple(warnings))

    def _command(self, words: str) -> str:
        return f"duramen cert {words} --dir {quote(str(self._folder))}"
