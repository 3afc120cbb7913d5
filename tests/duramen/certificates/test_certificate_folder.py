"""A folder of certificates: made, issued, reissued, and its CA changed."""

from __future__ import annotations

import fcntl
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from kit.foreign_certificates import foreign_pair
from kit.passing_days import PassingDays

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity, identity_of
from duramen.certificates.lifetimes import AUTHORITY_DAYS, CLOCK_SKEW, LEAF_DAYS
from duramen.certificates.names import files_of, part_of
from duramen.certificates.pair import read_pair, replace_pair
from duramen.certificates.signing import hosts_of, is_signed_by
from log_tier.model.errors import (
    CertificateInvalid,
    FolderInUse,
    ForeignFolder,
    InvalidName,
    InvalidRequest,
)

pytestmark = pytest.mark.embedded_log_only

SERVER, ALICE = CertificateIdentity("server", "n1"), CertificateIdentity("user", "alice")
HOSTS = ("n1.example.org", "10.0.0.5")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def time() -> PassingDays:
    return PassingDays(BEGIN)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "certs"


@pytest.fixture
def folder(path: Path, time: PassingDays) -> CertificateFolder:
    """A folder with a CA, a server and a user."""
    folder = CertificateFolder(path, time.clock)
    folder.make_authority()
    folder.issue(SERVER, HOSTS)
    folder.issue(ALICE, ())
    return folder


def certificates(path: Path, name: str) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(files_of(path, name).certificate.read_bytes())


def contents(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


class TestMaking:
    def test_only_the_owner_opens_it(self, folder: CertificateFolder, path: Path) -> None:
        modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in path.iterdir()}
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {name: mode for name, mode in modes.items() if mode != 0o644} == {
            **dict.fromkeys(("ca.key", "n1.key", "alice.key"), 0o600),
            ".lock": 0o600,
        }

    def test_an_empty_folder_is_taken_and_closed_to_others(self, path: Path) -> None:
        path.mkdir(mode=0o755)
        CertificateFolder(path).make_authority()
        assert stat.S_IMODE(path.stat().st_mode) == 0o700

    def test_a_folder_of_others_stays_as_it_is(self, path: Path) -> None:
        path.mkdir()
        path.chmod(0o755)
        (path / "notes.txt").touch()
        with pytest.raises(ForeignFolder, match=r"certs holds notes\.txt and no CA"):
            CertificateFolder(path).make_authority()
        assert stat.S_IMODE(path.stat().st_mode) == 0o755
        assert [each.name for each in path.iterdir()] == ["notes.txt"]

    def test_a_second_ca_is_refused(self, folder: CertificateFolder, path: Path) -> None:
        before = contents(path)
        with pytest.raises(InvalidRequest, match=r"ca\.crt is there already: `duramen cert rotate --ca --dir "):
            folder.make_authority()
        assert contents(path) == before

    def test_its_times_and_name(self, path: Path, time: PassingDays) -> None:
        folder = CertificateFolder(path, time.clock)
        facts = folder.make_authority("Example CA", days=100)
        assert (facts.kind, facts.name, facts.hosts) == ("ca", "Example CA", ())
        assert facts.issuer.startswith("serialNumber=")
        assert (facts.valid_from, facts.valid_to) == (BEGIN - CLOCK_SKEW, BEGIN + timedelta(days=100))
        for days in (0, 40_000):
            with pytest.raises(InvalidRequest, match=f"not {days}"):
                CertificateFolder(path.with_name("other")).make_authority(days=days)
        assert not path.with_name("other").exists()

    def test_an_interrupted_making_is_made_again_or_completed(self, path: Path) -> None:
        path.mkdir()
        part_of(files_of(path, "ca").key).write_bytes(b"torn")
        CertificateFolder(path).make_authority()
        files = files_of(path, "ca")
        files.certificate.rename(part_of(files.certificate))
        with pytest.raises(InvalidRequest, match=r"ca\.crt is there already"):
            CertificateFolder(path).make_authority()
        assert read_pair(*files).certificate == files.certificate.read_bytes()


class TestIssuing:
    def test_a_server(self, folder: CertificateFolder, path: Path) -> None:
        (certificate,) = certificates(path, "n1")
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert [use.dotted_string for use in uses] == ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"], (
            "serverAuth, clientAuth"
        )
        assert hosts_of(certificate) == HOSTS
        assert identity_of(files_of(path, "n1").certificate.read_bytes()) == SERVER

    def test_a_user(self, folder: CertificateFolder, path: Path) -> None:
        (certificate,) = certificates(path, "alice")
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        assert [use.dotted_string for use in uses] == ["1.3.6.1.5.5.7.3.2"], "clientAuth"
        assert hosts_of(certificate) == ()
        assert identity_of(files_of(path, "alice").certificate.read_bytes()) == ALICE

    def test_a_name_that_has_one_is_refused(self, folder: CertificateFolder, path: Path) -> None:
        before = contents(path)
        with pytest.raises(InvalidRequest, match=r"alice\.crt is there already: `duramen cert rotate alice"):
            folder.issue(ALICE, ())
        files_of(path, "alice").certificate.unlink()
        with pytest.raises(InvalidRequest, match=r"alice\.key is there already"):
            folder.issue(ALICE, ())
        assert contents(path) | {"alice.crt": before["alice.crt"]} == before

    def test_what_makes_no_sense(self, folder: CertificateFolder, path: Path) -> None:
        with pytest.raises(InvalidName):
            folder.issue(CertificateIdentity("user", "ca"), ())
        with pytest.raises(InvalidName):
            folder.issue(CertificateIdentity("user", "../alice"), ())
        with pytest.raises(InvalidRequest, match="a server has hosts and a user has none; bob is a user"):
            folder.issue(CertificateIdentity("user", "bob"), HOSTS)
        with pytest.raises(InvalidRequest, match="n2 is a server"):
            folder.issue(CertificateIdentity("server", "n2"), ())
        with pytest.raises(InvalidRequest, match=r"there is no folder .*/none: `duramen cert init --dir"):
            CertificateFolder(path.with_name("none")).issue(ALICE, ())
        path.with_name("empty").mkdir()
        with pytest.raises(CertificateInvalid, match=r"ca\.key is missing, so nothing can be signed here"):
            CertificateFolder(path.with_name("empty")).issue(ALICE, ())

    def test_it_ends_with_its_ca_at_the_latest(self, path: Path, time: PassingDays) -> None:
        folder = CertificateFolder(path, time.clock)
        authority = folder.make_authority(days=100)
        assert folder.issue(ALICE, (), days=99).valid_to == BEGIN + timedelta(days=99)
        assert folder.issue(SERVER, HOSTS).valid_to == authority.valid_to

    def test_an_expired_ca_signs_nothing(self, folder: CertificateFolder, time: PassingDays) -> None:
        time.pass_days(AUTHORITY_DAYS + 1)
        with pytest.raises(CertificateInvalid, match=r"2035-12-30.*make a new CA with `duramen cert rotate --ca"):
            folder.issue(CertificateIdentity("user", "bob"), ())
        time.pass_days(-2 * AUTHORITY_DAYS)
        with pytest.raises(CertificateInvalid, match="set the clock"):
            folder.rotate()

    def test_a_companys_own_ca_signs_too(self, path: Path) -> None:
        path.mkdir()
        made = foreign_pair(
            ["Example CA"], key=rsa.generate_private_key(public_exponent=65537, key_size=2048), is_ca=True
        )
        replace_pair(files_of(path, "ca"), made)
        CertificateFolder(path).issue(ALICE, ())
        assert is_signed_by(certificates(path, "alice")[0], certificates(path, "ca")[0])

    def test_what_is_no_ca_signs_nothing(self, path: Path) -> None:
        path.mkdir()
        replace_pair(files_of(path, "ca"), foreign_pair(["alice"]))
        with pytest.raises(CertificateInvalid, match="is no CA with an ECDSA or RSA key"):
            CertificateFolder(path).issue(ALICE, ())

    def test_one_process_changes_it(self, folder: CertificateFolder, path: Path) -> None:
        held = os.open(path / ".lock", os.O_RDWR)
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            for change in (folder.rotate, folder.rotate_authority, folder.finish_authority, folder.make_authority):
                with pytest.raises(FolderInUse, match=f"another command changes {path}"):
                    change()
        finally:
            os.close(held)
        folder.rotate()


class TestRotating:
    def test_the_same_names_and_uses_and_a_new_key(
        self, folder: CertificateFolder, path: Path, time: PassingDays
    ) -> None:
        before = {name: (certificates(path, name)[0], read_pair(*files_of(path, name))) for name in ("n1", "alice")}
        time.pass_days(300)
        rotation = folder.rotate()
        assert [each.name for each in rotation.reissued] == ["alice", "n1"]
        assert rotation.kept == ()
        for name, (old, pair) in before.items():
            (new,) = certificates(path, name)
            assert read_pair(*files_of(path, name)).key != pair.key
            assert new.public_key() != old.public_key()
            assert new.subject == old.subject
            assert new.not_valid_after_utc == time.now + timedelta(days=LEAF_DAYS)
            for kind in (x509.SubjectAlternativeName, x509.ExtendedKeyUsage, x509.KeyUsage, x509.BasicConstraints):
                extensions = [each.extensions.get_extension_for_class(kind) for each in (old, new)]
                assert extensions[0] == extensions[1]

    def test_one_of_them(self, folder: CertificateFolder, path: Path) -> None:
        before = contents(path)
        assert [each.name for each in folder.rotate("alice").reissued] == ["alice"]
        after = contents(path)
        assert {name for name in after if after[name] != before[name]} == {"alice.crt", "alice.key"}

    def test_its_lifetime_stays_or_is_said(self, folder: CertificateFolder, time: PassingDays) -> None:
        folder.issue(CertificateIdentity("user", "short"), (), days=7)
        time.pass_days(20)
        assert folder.rotate("short").reissued[0].valid_to == time.now + timedelta(days=7)
        assert folder.rotate("short", days=9).reissued[0].valid_to == time.now + timedelta(days=9)
        assert folder.rotate("short").reissued[0].valid_to == time.now + timedelta(days=9)

    def test_one_that_ended_with_its_ca_has_a_whole_lifetime_again(
        self, folder: CertificateFolder, time: PassingDays
    ) -> None:
        time.pass_days(AUTHORITY_DAYS - 10)
        assert folder.rotate("alice").reissued[0].valid_to - time.now == timedelta(days=10)
        folder.rotate_authority()
        assert folder.rotate("alice").reissued[0].valid_to - time.now == timedelta(days=LEAF_DAYS)

    def test_what_cannot_be_reissued(self, folder: CertificateFolder, path: Path) -> None:
        with pytest.raises(InvalidRequest, match=r"has no certificate bob: .*`duramen cert issue bob --dir"):
            folder.rotate("bob")
        replace_pair(files_of(path, "db1"), foreign_pair(["db1"]))
        with pytest.raises(InvalidRequest, match=r"db1\.crt is not signed by this folder's CA"):
            folder.rotate("db1")
        foreign = read_pair(*files_of(path, "db1"))
        rotation = folder.rotate()
        assert ([each.name for each in rotation.reissued], rotation.kept) == (["alice", "n1"], ("db1",))
        assert read_pair(*files_of(path, "db1")) == foreign

    def test_a_file_of_another_name_stops_all(self, folder: CertificateFolder, path: Path) -> None:
        replace_pair(files_of(path, "bob"), read_pair(*files_of(path, "alice")))
        before = contents(path)
        with pytest.raises(CertificateInvalid, match=r"bob\.crt is the certificate of the user 'alice'"):
            folder.rotate()
        (path / "bob.crt").write_bytes(b"torn")
        with pytest.raises(CertificateInvalid, match=r"bob\.crt holds no certificate"):
            folder.rotate()
        assert contents(path) | {"bob.crt": before["bob.crt"]} == before

    def test_an_interrupted_change_is_completed_first(self, folder: CertificateFolder, path: Path) -> None:
        files = files_of(path, "alice")
        files.certificate.rename(part_of(files.certificate))
        files.certificate.write_bytes(files_of(path, "n1").certificate.read_bytes())
        folder.rotate("n1")
        assert identity_of(files.certificate.read_bytes()) == ALICE
        assert not part_of(files.certificate).exists()


class TestTheCa:
    def test_it_is_changed_in_three_steps(self, folder: CertificateFolder, path: Path, time: PassingDays) -> None:
        (old,) = certificates(path, "ca")
        time.pass_days(3000)
        facts = folder.rotate_authority()
        assert facts.valid_to == time.now + timedelta(days=AUTHORITY_DAYS)
        new, kept = certificates(path, "ca")
        assert (kept, facts.name) == (old, "Duramen CA")
        assert new.subject != old.subject, "a verifier that goes by names finds the right one"
        read_pair(*files_of(path, "ca"))
        assert is_signed_by(certificates(path, "alice")[0], old)
        with pytest.raises(InvalidRequest, match=r"the old CA signed alice, n1: reissue with `duramen cert rotate"):
            folder.finish_authority()
        with pytest.raises(InvalidRequest, match="holds 2 CAs, so a change is under way"):
            folder.rotate_authority()
        folder.rotate("alice")
        with pytest.raises(InvalidRequest, match="the old CA signed n1: "):
            folder.finish_authority()
        assert [each.name for each in folder.rotate().reissued] == ["alice", "n1"]
        for name in ("alice", "n1"):
            assert is_signed_by(certificates(path, name)[0], new)
        folder.finish_authority()
        assert certificates(path, "ca") == [new]
        with pytest.raises(InvalidRequest, match="holds one CA, so no change is under way"):
            folder.finish_authority()

    def test_what_is_issued_during_the_change_is_the_new_ones(self, folder: CertificateFolder, path: Path) -> None:
        folder.rotate_authority(days=50)
        folder.issue(CertificateIdentity("user", "bob"), ())
        assert is_signed_by(certificates(path, "bob")[0], certificates(path, "ca")[0])

    def test_an_expired_one_is_changed(self, folder: CertificateFolder, path: Path, time: PassingDays) -> None:
        time.pass_days(AUTHORITY_DAYS + 1)
        folder.rotate_authority()
        folder.rotate()
        folder.finish_authority()
        assert certificates(path, "ca")[0].not_valid_after_utc > time.now

    def test_one_whose_key_is_lost_is_changed(self, folder: CertificateFolder, path: Path) -> None:
        (path / "ca.key").unlink()
        with pytest.raises(CertificateInvalid, match=r"ca\.key is missing"):
            folder.rotate()
        folder.rotate_authority()
        folder.rotate()

    def test_another_ones_key_is_not_overwritten(self, folder: CertificateFolder, path: Path) -> None:
        (path / "ca.key").write_bytes(foreign_pair(["x"]).key)
        before = contents(path)
        with pytest.raises(CertificateInvalid, match=r"ca\.key is not the key of"):
            folder.rotate_authority()
        assert contents(path) == before

    def test_an_interrupted_change_is_completed(self, folder: CertificateFolder, path: Path) -> None:
        (old,) = certificates(path, "ca")
        before = (path / "ca.crt").read_bytes()
        folder.rotate_authority()
        (path / "ca.crt").rename(path / "ca.crt.part")
        (path / "ca.crt").write_bytes(before)
        folder.rotate()
        assert certificates(path, "ca")[1:] == [old]
        assert is_signed_by(certificates(path, "alice")[0], certificates(path, "ca")[0])
