"""A certificate and its key are two files, and change as one: for readers at every time, and after a crash."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from kit.foreign_certificates import foreign_pair

from duramen.certificates.names import PairFiles, files_of, part_of
from duramen.certificates.pair import (
    PemPair,
    is_interrupted,
    read_pair,
    replace_certificates,
    replace_pair,
    settle,
)
from duramen.certificates.pem import parse_key
from log_tier.access.client.pem_files import PEM_BYTES_MAX
from log_tier.model.errors import CertificateInvalid, DiskFailed

pytestmark = pytest.mark.embedded_log_only

OLD, NEW = foreign_pair(["old"]), foreign_pair(["new"])


@pytest.fixture
def files(tmp_path: Path) -> PairFiles:
    """Files with the old pair."""
    files = files_of(tmp_path, "n1")
    replace_pair(files, OLD)
    return files


def interrupt(files: PairFiles) -> None:
    """What is there between the two renames of a change to the new pair."""
    files.key.write_bytes(NEW.key)
    part_of(files.certificate).write_bytes(NEW.certificate)


def test_a_pair_is_read_as_it_was_written(files: PairFiles) -> None:
    assert read_pair(*files) == OLD
    replace_pair(files, NEW)
    assert read_pair(*files) == NEW
    assert not is_interrupted(files)
    assert sorted(each.name for each in files.key.parent.iterdir()) == ["n1.crt", "n1.key"]


def test_a_key_is_its_owners(files: PairFiles, tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        replace_pair(files, NEW)
    finally:
        os.umask(old)
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    assert stat.S_IMODE(files.certificate.stat().st_mode) == 0o644


def test_a_part_that_somebody_left_there_is_not_written_to(files: PairFiles, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"of somebody")
    part_of(files.key).symlink_to(other)
    replace_pair(files, NEW)
    assert other.read_bytes() == b"of somebody"
    assert not files.key.is_symlink()


def test_between_the_renames_a_reader_has_the_new_pair(files: PairFiles) -> None:
    interrupt(files)
    assert read_pair(*files) == NEW
    assert is_interrupted(files)
    files.certificate.unlink()
    assert read_pair(*files) == NEW, "of a first issue"


def test_before_the_renames_a_reader_has_the_old_pair(files: PairFiles) -> None:
    part_of(files.key).write_bytes(NEW.key)
    part_of(files.certificate).write_bytes(NEW.certificate)
    assert read_pair(*files) == OLD
    assert not is_interrupted(files)


@pytest.mark.parametrize("left", [b"", NEW.certificate[:300]], ids=["empty", "torn"])
def test_what_is_left_of_a_change_that_had_not_come_far_is_removed(files: PairFiles, left: bytes) -> None:
    part_of(files.key).write_bytes(NEW.key)
    part_of(files.certificate).write_bytes(left)
    settle(files)
    assert read_pair(*files) == OLD
    assert sorted(each.name for each in files.key.parent.iterdir()) == ["n1.crt", "n1.key"]


def test_an_interrupted_change_is_completed(files: PairFiles) -> None:
    interrupt(files)
    settle(files)
    assert not part_of(files.certificate).exists()
    assert read_pair(*files) == NEW
    assert not is_interrupted(files)


def test_a_reader_during_many_changes_always_has_a_pair(files: PairFiles) -> None:
    """A writer in another thread, at its own speed; the reader reads as fast as it can."""
    pairs = [OLD, NEW, foreign_pair(["third"])]
    done = threading.Event()

    def write() -> None:
        for number in range(120):
            replace_pair(files, pairs[number % 3])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[PemPair] = set()
    while not done.is_set():
        seen.add(read_pair(*files))
    writer.join()
    seen.add(read_pair(*files))
    assert seen <= set(pairs), "and never a certificate of one with the key of another"
    assert len(seen) > 1


def test_files_that_are_no_pair(files: PairFiles) -> None:
    files.key.write_bytes(NEW.key)
    with pytest.raises(CertificateInvalid, match=r"n1\.key is not the key of .*n1\.crt") as caught:
        read_pair(*files)
    assert caught.value.fields == {"file": str(files.key)}
    assert (caught.value.retryable, caught.value.fault) == (False, "state")


@pytest.mark.parametrize("which", ["certificate", "key"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "in PEM"),
        (b"\0" * (PEM_BYTES_MAX + 1), "is longer than"),
        (OLD.certificate[:200] + OLD.key[:100], "in PEM"),
    ],
    ids=["missing", "empty", "long", "torn"],
)
def test_the_error_names_the_file(files: PairFiles, which: str, content: bytes | None, message: str) -> None:
    file: Path = getattr(files, which)
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(CertificateInvalid, match=message) as caught:
        read_pair(*files)
    assert caught.value.fields == {"file": str(file)}
    assert str(file) in caught.value.message


def test_a_key_with_a_passphrase(files: PairFiles) -> None:
    key = parse_key(OLD.key, files.key)
    files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")))
    with pytest.raises(CertificateInvalid, match="has a passphrase") as caught:
        read_pair(*files)
    assert "secret" not in caught.value.message


def test_a_companys_chain_and_rsa_key(tmp_path: Path) -> None:
    made = foreign_pair(["db1"], key=rsa.generate_private_key(public_exponent=65537, key_size=2048))
    chain = PemPair(b"subject=CN=db1\n" + made.certificate + OLD.certificate, made.key)
    files = files_of(tmp_path, "db1")
    replace_pair(files, chain)
    assert read_pair(*files) == chain
    replace_pair(files, PemPair(OLD.certificate + made.certificate, made.key))
    with pytest.raises(CertificateInvalid, match="is not the key of"):
        read_pair(*files)


def test_what_the_disk_refuses_is_typed(files: PairFiles, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path)
    with pytest.raises(DiskFailed, match=r"n1\.key cannot be replaced: No such file"):
        replace_pair(files, NEW)
    tmp_path.mkdir()
    (tmp_path / "n1.crt.part").mkdir()
    with pytest.raises(DiskFailed, match=r"n1\.crt cannot be replaced|n1\.crt\.part"):
        settle(files)


def test_a_bundle_is_replaced_whole(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    replace_certificates(file, OLD.certificate)
    replace_certificates(file, NEW.certificate)
    assert file.read_bytes() == NEW.certificate
    assert [each.name for each in tmp_path.iterdir()] == ["ca.crt"]
