"""A certificate and its key: two files, changed as one.

    writer   key.part, crt.part ── synced ──▶ rename key.part to key ──▶ rename crt.part to crt
                                                                     │
    reader   a certificate that is not the key's: in between, the other one is in crt.part

So a reader finds a matching pair at every time, also after a writer that was killed between the two renames. The next
change completes it (`settle`).
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from duramen.certificates.names import PairFiles, part_of
from duramen.certificates.pem import are_a_pair, parse_certificate, parse_key
from log_tier.access.client.pem_files import read_pem
from log_tier.concurrency.disk_errors import disk_refusal
from log_tier.model.errors import CertificateInvalid, DuramenError

__all__ = ["PemPair", "is_interrupted", "read_pair", "replace_certificates", "replace_pair", "settle"]

_ATTEMPTS_MAX: Final = 10
"""Each one fails only if a whole change happened while it read, or if the files are no pair."""

_PRIVATE: Final = 0o600
_PUBLIC: Final = 0o644


class PemPair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: bytes
    """The whole file: the certificate, and what its issuer put behind it (intermediate CAs)."""
    key: bytes


def read_pair(certificate: Path, key: Path) -> PemPair:
    """Read a certificate and its key while somebody may replace both. What is returned matches.

    Raises `CertificateInvalid` with the `file` that is missing, malformed, or not the other one's. A server that reads
    its files again then keeps what it has and tries later. Two small files are read and their public keys compared:
    under a millisecond.
    """
    return _read(PairFiles(certificate, key))[0]


def is_interrupted(files: PairFiles) -> bool:
    """Whether a change ended between its two renames, or is there now. Raises `CertificateInvalid` as `read_pair`."""
    return _read(files)[1]


def replace_pair(files: PairFiles, pair: PemPair) -> None:
    """Put a pair in place of what is there, so that readers and a crash see the one or the other. Five syncs.

    Raises `DiskFull`, `DiskFailed`, `FolderReadOnly`; the files are then unchanged, or `settle` completes the change.
    """
    _replace({files.key: (pair.key, _PRIVATE), files.certificate: (pair.certificate, _PUBLIC)})


def replace_certificates(file: Path, data: bytes) -> None:
    """Put a bundle of certificates in place of a file, whole or not at all. Errors as of `replace_pair`."""
    _replace({file: (data, _PUBLIC)})


def settle(files: PairFiles) -> None:
    """Complete a change that was interrupted between its two renames; remove what is left of one that had not come so
    far. Nobody else may write. Raises `DiskFailed`, `FolderReadOnly`.
    """
    part = part_of(files.certificate)
    if not any(part_of(file).exists() for file in files):
        return
    try:
        if part.exists() and not _match(files.certificate, files.key) and _match(part, files.key):
            part.rename(files.certificate)
        for file in files:
            part_of(file).unlink(missing_ok=True)
        _sync_folder(files.key.parent)
    except OSError as error:
        raise _refusal(error, files.certificate) from error


def _read(files: PairFiles) -> tuple[PemPair, bool]:
    """The pair, and whether its certificate has not been renamed yet."""
    problem: CertificateInvalid | None = None
    for _ in range(_ATTEMPTS_MAX):
        try:
            key = read_pem(files.key)
            try:
                return PemPair(_matching(files.certificate, key, files.key), key), False
            except CertificateInvalid as error:
                # Other programs make no such file; then the next attempt reads what they have written since.
                with suppress(CertificateInvalid):
                    return PemPair(_matching(part_of(files.certificate), key, files.key), key), True
                problem = error
        except CertificateInvalid as error:
            problem = error
    assert problem is not None, f"{files}: no attempt, and no problem"
    raise problem


def _matching(certificate: Path, key: bytes, key_file: Path) -> bytes:
    data = read_pem(certificate)
    if not are_a_pair(parse_certificate(data, certificate), parse_key(key, key_file)):
        raise CertificateInvalid(
            f"{key_file} is not the key of {certificate}: put the two that belong together there, or reissue them",
            file=str(key_file),
        )
    return data


def _match(certificate: Path, key: Path) -> bool:
    try:
        _matching(certificate, read_pem(key), key)
    except CertificateInvalid:
        return False
    return True


def _replace(contents: dict[Path, tuple[bytes, int]]) -> None:
    """All parts are on stable storage before the first rename, and renamed in the order of `contents`."""
    first = next(iter(contents))
    try:
        for file, (data, mode) in contents.items():
            _write_synced(part_of(file), data, mode)
        _sync_folder(first.parent)
        for file in contents:
            part_of(file).rename(file)
            _sync_folder(first.parent)  # each one before the next: a disk may write two names in another order
    except OSError as error:
        raise _refusal(error, first) from error


def _write_synced(part: Path, data: bytes, mode: int) -> None:
    part.unlink(missing_ok=True)
    # A file of one's own, never another one behind a link; nobody else can open it before it has its mode.
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
    with open(descriptor, "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refusal(error: OSError, file: Path) -> DuramenError:
    return disk_refusal(error, f"{file} cannot be replaced", path=file, effect="the change is not complete")
