"""What is in a folder of certificates, and what is wrong with it."""

from __future__ import annotations

import hashlib
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.foreign_certificates import foreign_pair
from kit.passing_days import PassingDays

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity
from duramen.certificates.inspection import CertificateStatus, inspect_folder
from duramen.certificates.lifetimes import AUTHORITY_DAYS, DAYS_WARNED, LEAF_DAYS
from duramen.certificates.names import files_of
from duramen.certificates.pair import replace_pair
from log_tier.model.errors import InvalidRequest

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
def time() -> PassingDays:
    return PassingDays()


@pytest.fixture
def path(tmp_path: Path, time: PassingDays) -> Path:
    """A folder with a CA, a server and a user."""
    folder = CertificateFolder(tmp_path / "certs", time.clock)
    folder.make_authority()
    folder.issue(CertificateIdentity("server", "n1"), ("localhost", "127.0.0.1"))
    folder.issue(CertificateIdentity("user", "alice"), ())
    return tmp_path / "certs"


def found(path: Path, time: PassingDays) -> dict[str, CertificateStatus]:
    return {status.file.stem: status for status in inspect_folder(path, time.clock)}


def test_a_folder_in_order(path: Path, time: PassingDays) -> None:
    statuses = inspect_folder(path, time.clock)
    assert [status.file.name for status in statuses] == ["ca.crt", "alice.crt", "n1.crt"]
    assert all(status.problems == status.warnings == () for status in statuses)
    assert [status.days_left for status in statuses] == [AUTHORITY_DAYS, LEAF_DAYS, LEAF_DAYS]
    facts = [status.facts for status in statuses if status.facts is not None]
    assert [(each.kind, each.name) for each in facts] == [("ca", "Duramen CA"), ("user", "alice"), ("server", "n1")]
    assert facts[2].hosts == ("localhost", "127.0.0.1")
    assert facts[2].issuer == facts[0].issuer
    der = ssl.PEM_cert_to_DER_cert((path / "n1.crt").read_text())
    assert facts[2].fingerprint.replace(":", "").lower() == hashlib.sha256(der).hexdigest()


def test_nothing_is_changed(path: Path, time: PassingDays) -> None:
    before = {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.iterdir()}
    path.chmod(0o500)
    try:
        inspect_folder(path, time.clock)
    finally:
        path.chmod(0o700)
    assert {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in path.iterdir()} == before


def test_a_machine_that_only_verifies_has_no_key_of_the_ca(path: Path, time: PassingDays) -> None:
    (path / "ca.key").unlink()
    assert found(path, time)["ca"].problems == ()


def test_time_passes(path: Path, time: PassingDays) -> None:
    time.pass_days(LEAF_DAYS - DAYS_WARNED)
    assert found(path, time)["alice"].warnings == ()
    time.pass_days(1)
    alice = found(path, time)["alice"]
    assert (alice.days_left, alice.problems) == (DAYS_WARNED - 1, ())
    assert alice.warnings == (f"it expires in less than 30 days: `duramen cert rotate alice --dir {path}`",)
    time.pass_days(DAYS_WARNED)
    alice = found(path, time)["alice"]
    assert alice.days_left == -1
    assert "it expired on" in alice.problems[0]
    assert found(path, time)["ca"].problems == ()
    time.pass_days(-LEAF_DAYS - 5)
    assert {"it is not valid before" in status.problems[0] for status in found(path, time).values()} == {True}
    time.pass_days(AUTHORITY_DAYS + 10)
    assert f"duramen cert rotate --ca --dir {path}" in found(path, time)["ca"].problems[0]


def _others_key(path: Path) -> None:
    shutil.copy(path / "n1.key", path / "alice.key")


def _readable(path: Path) -> None:
    (path / "alice.key").chmod(0o640)


def _no_key(path: Path) -> None:
    (path / "alice.key").unlink()


def _of_another_ca(path: Path) -> None:
    replace_pair(files_of(path, "alice"), foreign_pair(["alice"]))


def _torn(path: Path) -> None:
    (path / "alice.crt").write_bytes((path / "alice.crt").read_bytes()[:100])


def _of_another_name(path: Path) -> None:
    for each in ("crt", "key"):
        shutil.copy(path / f"n1.{each}", path / f"alice.{each}")


def _interrupted(path: Path) -> None:
    (path / "alice.crt").rename(path / "alice.crt.part")
    shutil.copy(path / "n1.crt", path / "alice.crt")


def _without_ca(path: Path) -> None:
    (path / "ca.crt").unlink()
    (path / "ca.key").unlink()


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (_others_key, "alice.key is not the key of"),
        (_readable, "alice.key can be used by others (mode 0640): chmod 600"),
        (_no_key, "alice.key cannot be read: No such file"),
        (_of_another_ca, "it is not signed by this folder's CA"),
        (_torn, "alice.crt holds no certificate in PEM"),
        (_of_another_name, "it is the certificate of 'n1', in a file of another name"),
        (_interrupted, "a change of its files was interrupted"),
        (_without_ca, "no CA to verify it with"),
    ],
)
def test_what_can_be_wrong(damage: Callable[[Path], None], problem: str, path: Path, time: PassingDays) -> None:
    damage(path)
    statuses = found(path, time)
    assert any(problem in each for each in statuses["alice"].problems), statuses["alice"].problems
    if damage is not _without_ca:
        assert statuses["n1"].problems == statuses["ca"].problems == ()


def test_what_can_be_wrong_with_the_ca(path: Path, time: PassingDays) -> None:
    (path / "ca.key").chmod(0o644)
    assert "ca.key can be used by others (mode 0644)" in found(path, time)["ca"].problems[0]
    shutil.copy(path / "n1.key", path / "ca.key")
    assert "ca.key is not the key of" in found(path, time)["ca"].problems[0]
    (path / "ca.crt").write_bytes(b"nothing")
    statuses = found(path, time)
    assert "ca.crt holds no certificate" in statuses["ca"].problems[0]
    assert statuses["alice"].problems == ("no CA to verify it with",)
    shutil.copy(path / "n1.crt", path / "ca.crt")
    assert "it is no CA" in found(path, time)["ca"].problems


def test_a_ca_that_is_changed(path: Path, time: PassingDays) -> None:
    folder = CertificateFolder(path, time.clock)
    folder.rotate_authority()
    folder.rotate("n1")
    new, old, alice, server = inspect_folder(path, time.clock)
    assert (new.warnings, server.warnings) == ((), ())
    assert "an old CA, trusted during a change" in old.warnings[0]
    assert alice.warnings == (f"the old CA signed it: `duramen cert rotate alice --dir {path}` reissues it",)
    assert not any(status.problems for status in (new, old, alice, server))


def test_folders_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="there is no folder"):
        inspect_folder(tmp_path / "none")
    with pytest.raises(InvalidRequest, match="holds no certificate: `duramen cert init --dir"):
        inspect_folder(tmp_path)
