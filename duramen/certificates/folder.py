"""A folder of certificates: its CA, what the CA signs, and how each of them is replaced.

make_authority ──▶ issue … ──▶ rotate …                       certificates, while the CA stays
                      │
                      └──▶ rotate_authority ──▶ rotate ──▶ finish_authority      a new CA
                           both are trusted     new one     only the new one is trusted
                                                signs all
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from duramen.certificates.facts import CertificateFacts, facts_of
from duramen.certificates.folder_lock import changing, make_folder
from duramen.certificates.identity import CertificateIdentity
from duramen.certificates.lifetimes import AUTHORITY_DAYS, AUTHORITY_NAME, CLOCK_SKEW, LEAF_DAYS, lifetime_of_days
from duramen.certificates.names import (
    AUTHORITY,
    PairFiles,
    check_authority_name,
    check_name,
    files_of,
    leaf_names,
    pair_names,
)
from duramen.certificates.pair import PemPair, read_pair, replace_certificates, replace_pair, settle
from duramen.certificates.pem import certificate_pem, parse_certificate, parse_certificates, parse_key
from duramen.certificates.signing import Authority, is_authority, is_signed_by, make_authority, sign
from log_tier.access.client.pem_files import read_pem
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import CertificateInvalid, InvalidRequest

__all__ = ["CertificateFolder", "Rotation"]


class Rotation(NamedTuple):
    """What was reissued."""

    reissued: tuple[CertificateFacts, ...]
    kept: tuple[str, ...]
    """Names of certificates that another CA signed, which has to reissue them."""


class CertificateFolder:
    """A folder with a CA and the certificates that it signed.

    Readers that use `read_pair` see each change whole or not at all. It is on stable storage when the call returns. One
    process changes a folder at a time. Calls raise `FolderInUse`, `CertificateInvalid` for a file that is not what it
    should be, and `DiskFull`, `DiskFailed` or `FolderReadOnly` where the disk refuses.
    """

    def __init__(self, path: Path, clock: Clock = SYSTEM_CLOCK) -> None:
        self._path = path
        self._clock = clock

    def make_authority(self, name: str = AUTHORITY_NAME, *, days: int = AUTHORITY_DAYS) -> CertificateFacts:
        """Make the folder and a CA in it. Raises `InvalidRequest` if there is one, `ForeignFolder` if the folder holds
        other files.
        """
        check_authority_name(name)
        lifetime = lifetime_of_days(days)
        make_folder(self._path)
        with changing(self._path):
            self._settle()
            if existing := _existing(self._authority_files):
                raise InvalidRequest(
                    f"{existing} is there already: `{self._command('rotate --ca')}` makes a new CA without a gap, or "
                    "choose another folder"
                )
            made = make_authority(name, now=self._now(), lifetime=lifetime)
            replace_pair(self._authority_files, made.as_pem())
        return facts_of(made.certificate, self._authority_files.certificate)

    def issue(self, identity: CertificateIdentity, hosts: Sequence[str], *, days: int = LEAF_DAYS) -> CertificateFacts:
        """Make a certificate and its key. `hosts`: of a server its DNS names and IP addresses; of a user none.

        Raises `InvalidName`, and `InvalidRequest` if the name has a certificate.
        """
        files = files_of(self._path, check_name(identity.name))
        lifetime = lifetime_of_days(days)
        if (identity.kind == "server") != bool(hosts):
            raise InvalidRequest(f"a server has hosts and a user has none; {identity.name} is a {identity.kind}")
        with changing(self._path):
            self._settle()
            authority = self._authority()
            if existing := _existing(files):
                rotate = self._command(f"rotate {identity.name}")
                raise InvalidRequest(f"{existing} is there already: `{rotate}` reissues it, or choose another name")
            return self._write(files, sign(authority, identity, hosts, now=self._now(), lifetime=lifetime))

    def rotate(self, name: str | None = None, *, days: int | None = None) -> Rotation:
        """Reissue one certificate, or all that this CA signed: the same names and uses, a new key. `days`: the new
        lifetime; None: that of the old one. If one of all cannot be read, none is reissued.

        Raises `InvalidRequest` if there is no such certificate, or if another CA signed it.
        """
        lifetime = None if days is None else lifetime_of_days(days)
        with changing(self._path):
            self._settle()
            authority = self._authority()
            known = self._authorities()
            names = leaf_names(self._path) if name is None else [self._existing_name(name)]
            found = {each: self._leaf(each) for each in names}
            ours = [each for each in names if any(is_signed_by(found[each], ca) for ca in known)]
            if name is not None and not ours:
                raise InvalidRequest(
                    f"{files_of(self._path, name).certificate} is not signed by this folder's CA: have it "
                    "reissued by the CA that signed it"
                )
            old = {each: facts_of(found[each], files_of(self._path, each).certificate) for each in ours}
            made = {each: self._reissued(authority, known, facts, lifetime) for each, facts in old.items()}
            reissued = tuple(self._write(files_of(self._path, each), pair) for each, pair in made.items())
        return Rotation(reissued, tuple(each for each in names if each not in ours))

    def rotate_authority(self, *, days: int | None = None) -> CertificateFacts:
        """Make a new CA, which signs from now on; `ca.crt` then holds it and the old one, so both are trusted. `days`:
        its lifetime; None: that of the old one. Raises `InvalidRequest` while such a change is under way.
        """
        lifetime = None if days is None else lifetime_of_days(days)
        with changing(self._path):
            self._settle()
            known = self._authorities()
            if len(known) > 1:
                raise InvalidRequest(
                    f"{self._authority_files.certificate} holds {len(known)} CAs, so a change is under way: "
                    f"reissue all certificates with `{self._command('rotate')}` and end it with "
                    f"`{self._command('rotate --ca --finish')}`"
                )
            (old,) = known
            if self._authority_files.key.exists():  # a lost key is a reason for a new CA, another one's is a mistake
                read_pair(*self._authority_files)
            name = facts_of(old, self._authority_files.certificate).name
            made = make_authority(check_authority_name(name), now=self._now(), lifetime=lifetime or _lifetime_of(old))
            bundle = certificate_pem(made.certificate) + certificate_pem(old)
            replace_pair(self._authority_files, PemPair(bundle, made.as_pem().key))
        return facts_of(made.certificate, self._authority_files.certificate)

    def finish_authority(self) -> CertificateFacts:
        """Trust only the new CA. Raises `InvalidRequest` if no change is under way, and while a certificate in the
        folder is signed by the old one.
        """
        with changing(self._path):
            self._settle()
            authority = self._authority()
            file = self._authority_files.certificate
            old = [each for each in self._authorities() if each != authority.certificate]
            if not old:
                raise InvalidRequest(
                    f"{file} holds one CA, so no change is under way: `{self._command('rotate --ca')}` begins one"
                )
            left = [name for name in leaf_names(self._path) if any(is_signed_by(self._leaf(name), ca) for ca in old)]
            if left:
                raise InvalidRequest(
                    f"the old CA signed {', '.join(left)}: reissue with `{self._command('rotate')}`, give the new "
                    "certificates to their servers and users, then finish"
                )
            replace_certificates(file, certificate_pem(authority.certificate))
        return facts_of(authority.certificate, file)

    @property
    def _authority_files(self) -> PairFiles:
        return files_of(self._path, AUTHORITY)

    def _authorities(self) -> list[x509.Certificate]:
        """The CAs that are trusted, the one that signs first."""
        file = self._authority_files.certificate
        return parse_certificates(read_pem(file), file)

    def _authority(self) -> Authority:
        """The CA that signs."""
        certificate_file, key_file = self._authority_files
        if not key_file.exists():
            raise CertificateInvalid(
                f"{key_file} is missing, so nothing can be signed here: `{self._command('init')}` makes a CA; one that "
                "exists signs where its key is",
                file=str(key_file),
            )
        pair = read_pair(certificate_file, key_file)
        certificate, key = parse_certificate(pair.certificate, certificate_file), parse_key(pair.key, key_file)
        if not is_authority(certificate) or not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise CertificateInvalid(
                f"{certificate_file} is no CA with an ECDSA or RSA key, so it cannot sign: put a CA there, or make one "
                f"in another folder with `duramen cert init`",
                file=str(certificate_file),
            )
        if not certificate.not_valid_before_utc <= self._now() <= certificate.not_valid_after_utc:
            raise CertificateInvalid(
                f"{certificate_file} is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} to "
                f"{certificate.not_valid_after_utc:%Y-%m-%d %H:%M} UTC, and it is {self._now():%Y-%m-%d %H:%M}: "
                f"set the clock, or make a new CA with `{self._command('rotate --ca')}`",
                file=str(certificate_file),
            )
        return Authority(certificate, key)

    def _existing_name(self, name: str) -> str:
        if not files_of(self._path, check_name(name)).certificate.exists():
            raise InvalidRequest(
                f"{self._path} has no certificate {name}: `{self._command('show')}` lists them, "
                f"`{self._command(f'issue {name}')}` makes one"
            )
        return name

    def _leaf(self, name: str) -> x509.Certificate:
        file = files_of(self._path, name).certificate
        return parse_certificate(read_pem(file), file)

    def _reissued(
        self,
        authority: Authority,
        known: Sequence[x509.Certificate],
        old: CertificateFacts,
        lifetime: timedelta | None,
    ) -> PemPair:
        """A certificate with the names and uses of an old one. Raises `CertificateInvalid` for what is not named as its
        file, and for a CA.
        """
        if old.kind == "ca" or old.file != files_of(self._path, old.name).certificate:
            raise CertificateInvalid(
                f"{old.file} is the certificate of the {old.kind} {old.name!r}: move it to a file of that name",
                file=str(old.file),
            )
        if lifetime is None:
            was_cut = any(old.valid_to == ca.not_valid_after_utc for ca in known)
            lifetime = lifetime_of_days(LEAF_DAYS) if was_cut else old.valid_to - old.valid_from - CLOCK_SKEW
        identity = CertificateIdentity(old.kind, old.name)
        return sign(authority, identity, old.hosts, now=self._now(), lifetime=lifetime)

    def _write(self, files: PairFiles, pair: PemPair) -> CertificateFacts:
        replace_pair(files, pair)
        return facts_of(parse_certificate(pair.certificate, files.certificate), files.certificate)

    def _settle(self) -> None:
        for name in pair_names(self._path):
            settle(files_of(self._path, name))

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() // 1000, tz=UTC)

    def _command(self, words: str) -> str:
        return f"duramen cert {words} --dir {quote(str(self._path))}"


def _lifetime_of(certificate: x509.Certificate) -> timedelta:
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc - CLOCK_SKEW


def _existing(files: PairFiles) -> Path | None:
    return next((file for file in files if file.exists()), None)
