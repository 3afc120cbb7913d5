"""The certificates that a server begins with: what it finds in its folder, and what it says of that."""

from __future__ import annotations

from pathlib import Path

import pytest

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.names import CertificateIdentity
from duramen.server.wiring.server_certificates import ServerCertificates
from log_tier.model.errors import CertificateInvalid


@pytest.fixture
def folder(tmp_path: Path) -> CertificateFolder:
    made = CertificateFolder(tmp_path)
    made.make_authority()
    return made


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o400, False), (0o644, True), (0o640, True)])
def test_a_key_that_others_can_read_is_reported(
    folder: CertificateFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warns: bool
) -> None:
    folder.issue(CertificateIdentity("server", "server"), ["localhost"])
    (tmp_path / "server.key").chmod(mode)
    ServerCertificates.open(tmp_path)
    key = tmp_path / "server.key"
    warning = f"{key} has the mode {mode:04o}, and who can read it can be this server: chmod 600 {key}"
    assert [record.getMessage() for record in caplog.records] == ([warning] if warns else [])


def test_a_certificate_that_is_no_servers_says_what_makes_it_one(folder: CertificateFolder, tmp_path: Path) -> None:
    """Another CA's certificates for hosts are users' until they have the URI, so the command alone is no way."""
    folder.issue(CertificateIdentity("user", "server"), [])
    with pytest.raises(CertificateInvalid, match="URI duramen:server:NAME"):
        ServerCertificates.open(tmp_path)
