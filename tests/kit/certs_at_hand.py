"""A CA and what it signs, for servers and clients of a test; OpenSSL's words for them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from duramen.certificates.channel_files import ChannelFiles
from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity
from kit.deadlines import patience_s
from kit.set_clock import SetClock
from log_tier.concurrency.clocks import SYSTEM_CLOCK

__all__ = ["CertsAtHand", "certificate_in", "openssl"]


class CertsAtHand:
    """A CA with the certificate of a server, issued so many days from now, and a CA that has nothing to do with it."""

    def __init__(self, path: Path, days: int = 0, hosts: tuple[str, ...] = ("localhost",)) -> None:
        self.path = path / "certs"
        clocks = [SetClock(lambda day=day: SYSTEM_CLOCK.wall_ms() + day * 86_400_000) for day in (min(days, 0), days)]  # type: ignore[misc]
        CertificateFolder(self.path, clocks[0]).make_authority()
        CertificateFolder(self.path, clocks[1]).issue(CertificateIdentity("server", "server"), hosts)
        self.folder = CertificateFolder(self.path)
        CertificateFolder(path / "other").make_authority()
        self._hosts = hosts
        self.ca = self.path / "ca.crt"
        self.other_ca = path / "other" / "ca.crt"

    def issue(self, name: str, *, user: bool = False, days: int = 0) -> ChannelFiles:
        """One more certificate of the CA, valid from so many days from now on, as a client of its holder takes it."""
        clock = SetClock(lambda: SYSTEM_CLOCK.wall_ms() + days * 86_400_000)
        identity = CertificateIdentity("user" if user else "server", name)
        CertificateFolder(self.path, clock).issue(identity, () if user else self._hosts)
        return self.client(name)

    def client(self, name: str) -> ChannelFiles:
        """A client that shows a certificate of the folder."""
        return ChannelFiles(self.ca, self.path / f"{name}.crt", self.path / f"{name}.key")


def openssl(*arguments: str) -> str:
    done = subprocess.run(["openssl", *arguments], input=b"", capture_output=True, timeout=patience_s(30), check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode("ascii", "replace")


def certificate_in(output: str) -> str:
    """The PEM of the server's certificate, of what `s_client` prints."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return begin + output.partition(begin)[2].partition(end)[0] + end
