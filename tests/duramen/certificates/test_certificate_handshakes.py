"""Certificates in use: real handshakes on loopback, with Python's client and OpenSSL's own."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pytest
from kit.deadlines import patience_s
from kit.passing_days import PassingDays

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity, identity_of

pytestmark = pytest.mark.embedded_log_only

HOSTS = ("localhost", "127.0.0.1")
SERVER, ALICE = CertificateIdentity("server", "n1"), CertificateIdentity("user", "alice")


def folder_at(path: Path, time: PassingDays | None = None, *, days: int = 90) -> CertificateFolder:
    """A folder with a CA, a server and a user, made at a time."""
    folder = CertificateFolder(path, (time or PassingDays()).clock)
    folder.make_authority()
    folder.issue(SERVER, HOSTS, days=days)
    folder.issue(ALICE, (), days=days)
    return folder


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "certs"
    folder_at(path)
    return path


@contextmanager
def serving(certs: Path, name: str = "n1", *, trusted: Path | None = None) -> Iterator[int]:
    """A TLS server that says whom it sees; gives its port. `trusted`: the CA of clients, which then need one each."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certs / f"{name}.crt", certs / f"{name}.key")
    if trusted is not None:
        context.load_verify_locations(trusted)
        context.verify_mode = ssl.CERT_REQUIRED
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_serve, args=(listener, context))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        listener.close()


def _serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            accepted, _ = listener.accept()
        except OSError:
            return
        accepted.settimeout(patience_s(60))
        with context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False) as secured:
            try:
                secured.do_handshake()
            except (ssl.SSLError, OSError):
                # The alert reaches the client only if the rest of its messages is read before this end closes.
                with socket.socket(fileno=secured.detach()) as plain, suppress(OSError):
                    plain.shutdown(socket.SHUT_WR)
                    while plain.recv(4096):
                        pass
                continue
            peer = secured.getpeercert(binary_form=True)
            seen = "nobody" if peer is None else " ".join(identity_of(ssl.DER_cert_to_PEM_cert(peer).encode()))
            secured.sendall(f"{seen}\n".encode())


def call(port: int, ca: Path, *, host: str = "localhost", certificate: Path | None = None, name: str = "alice") -> str:
    """What the server says to a client that trusts `ca`. Raises `ssl.SSLError`."""
    context = ssl.create_default_context(cafile=str(ca))
    if certificate is not None:
        context.load_cert_chain(certificate / f"{name}.crt", certificate / f"{name}.key")
    with (
        socket.create_connection(("127.0.0.1", port), timeout=patience_s(60)) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        return secured.recv(1000).decode().strip()


class TestServers:
    @pytest.mark.parametrize("host", HOSTS)
    def test_the_right_ca_and_name(self, certs: Path, host: str) -> None:
        with serving(certs) as port:
            assert call(port, certs / "ca.crt", host=host) == "nobody"

    def test_another_ca(self, certs: Path, tmp_path: Path) -> None:
        folder_at(tmp_path / "others")
        with (
            serving(certs) as port,
            pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"),
        ):
            call(port, tmp_path / "others" / "ca.crt")

    @pytest.mark.parametrize("host", ["example.org", "127.0.0.2", "n1", "duramen"])
    def test_another_name(self, certs: Path, host: str) -> None:
        """Its name is no host: only those that were named are."""
        with (
            serving(certs) as port,
            pytest.raises(ssl.SSLCertVerificationError, match="mismatch"),
        ):
            call(port, certs / "ca.crt", host=host)

    def test_expired(self, tmp_path: Path) -> None:
        time = PassingDays()
        time.pass_days(-100)
        folder_at(tmp_path / "certs", time, days=90)
        with (
            serving(tmp_path / "certs") as port,
            pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"),
        ):
            call(port, tmp_path / "certs" / "ca.crt")

    def test_not_yet_valid(self, tmp_path: Path) -> None:
        time = PassingDays()
        folder = folder_at(tmp_path / "certs", time)
        time.pass_days(1)
        folder.rotate("n1")
        with (
            serving(tmp_path / "certs") as port,
            pytest.raises(ssl.SSLCertVerificationError, match="not yet valid"),
        ):
            call(port, tmp_path / "certs" / "ca.crt")

    def test_a_clock_that_is_behind_a_little(self, tmp_path: Path) -> None:
        """The CA's machine is four minutes ahead of the client's."""
        time = PassingDays()
        time.pass_days(4 / 24 / 60)
        folder_at(tmp_path / "certs", time)
        with serving(tmp_path / "certs") as port:
            assert call(port, tmp_path / "certs" / "ca.crt") == "nobody"

    def test_a_user_is_no_server(self, certs: Path) -> None:
        with (
            serving(certs, "alice") as port,
            pytest.raises(ssl.SSLCertVerificationError, match=r"unsuitable|purpose"),
        ):
            call(port, certs / "ca.crt")


class TestClients:
    @pytest.mark.parametrize(("name", "seen"), [("alice", "user alice"), ("n1", "server n1")])
    def test_who_calls(self, certs: Path, name: str, seen: str) -> None:
        with serving(certs, trusted=certs / "ca.crt") as port:
            assert call(port, certs / "ca.crt", certificate=certs, name=name) == seen

    def test_nobody(self, certs: Path) -> None:
        with (
            serving(certs, trusted=certs / "ca.crt") as port,
            pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"),
        ):
            call(port, certs / "ca.crt")

    def test_a_user_of_another_ca(self, certs: Path, tmp_path: Path) -> None:
        folder_at(tmp_path / "others")
        with (
            serving(certs, trusted=certs / "ca.crt") as port,
            pytest.raises(ssl.SSLError, match=r"(?i)unknown.ca"),
        ):
            call(port, certs / "ca.crt", certificate=tmp_path / "others")

    def test_an_expired_one(self, tmp_path: Path) -> None:
        time = PassingDays()
        time.pass_days(-100)
        folder = folder_at(tmp_path / "certs", time, days=90)
        time.pass_days(100)
        folder.rotate("n1")
        ca = tmp_path / "certs" / "ca.crt"
        with (
            serving(tmp_path / "certs", trusted=ca) as port,
            pytest.raises(ssl.SSLError, match=r"(?i)certificate.expired"),
        ):
            call(port, ca, certificate=tmp_path / "certs")


def test_the_ca_is_changed_while_both_sides_go_on(tmp_path: Path) -> None:
    """At each step every server, with files of this step or of the one before, is called by every client alike."""
    path = tmp_path / "certs"
    folder = folder_at(path)
    steps = [Path(shutil.copytree(path, tmp_path / "begin"))]
    changes: tuple[Callable[[], object], ...] = (folder.rotate_authority, folder.rotate, folder.finish_authority)
    for number, change in enumerate(changes):
        change()
        steps.append(Path(shutil.copytree(path, tmp_path / f"step-{number}")))
    for before, after in pairwise(steps):
        for ours, theirs in ((before, after), (after, before), (after, after)):
            with serving(ours, trusted=ours / "ca.crt") as port:
                assert call(port, theirs / "ca.crt", certificate=theirs) == "user alice"
    with (
        serving(steps[-1]) as port,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        call(port, steps[0] / "ca.crt")


class TestOpenssl:
    """OpenSSL's own programs as the peer."""

    def openssl(self, *words: object) -> subprocess.CompletedProcess[str]:
        if shutil.which("openssl") is None:
            pytest.skip("openssl is not installed (apt-get install openssl)")
        return subprocess.run(
            ["openssl", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=patience_s(60),
            check=False,
            stdin=subprocess.DEVNULL,
        )

    @pytest.mark.parametrize(("name", "purpose"), [("n1", "sslserver"), ("n1", "sslclient"), ("alice", "sslclient")])
    def test_it_verifies(self, certs: Path, name: str, purpose: str) -> None:
        strict = ("-x509_strict", "-purpose", purpose, "-CAfile", certs / "ca.crt")
        done = self.openssl("verify", *strict, certs / f"{name}.crt")
        assert (done.returncode, done.stdout) == (0, f"{certs / name}.crt: OK\n"), done.stderr

    def test_it_refuses(self, certs: Path, tmp_path: Path) -> None:
        folder_at(tmp_path / "others")
        purpose = self.openssl("verify", "-purpose", "sslserver", "-CAfile", certs / "ca.crt", certs / "alice.crt")
        assert purpose.returncode == 2
        assert "unsuitable certificate purpose" in purpose.stderr + purpose.stdout
        other = self.openssl("verify", "-CAfile", tmp_path / "others" / "ca.crt", certs / "n1.crt")
        assert other.returncode == 2

    def test_what_it_reads(self, certs: Path) -> None:
        server = self.openssl("x509", "-in", certs / "n1.crt", "-noout", "-text").stdout
        for words in (
            "Subject: CN = n1\n",
            "DNS:localhost, IP Address:127.0.0.1, URI:duramen:server:n1\n",
            "TLS Web Server Authentication, TLS Web Client Authentication\n",
            "NIST CURVE: P-256\n",
            "X509v3 Basic Constraints: critical\n                CA:FALSE\n",
            "X509v3 Key Usage: critical\n                Digital Signature\n",
        ):
            assert words in server
        user = self.openssl("x509", "-in", certs / "alice.crt", "-noout", "-text").stdout
        assert "X509v3 Extended Key Usage: \n                TLS Web Client Authentication\n" in user
        assert "X509v3 Subject Alternative Name: \n                URI:duramen:user:alice\n" in user
        ca = self.openssl("x509", "-in", certs / "ca.crt", "-noout", "-text").stdout
        assert "CA:TRUE, pathlen:0\n" in ca
        assert "X509v3 Key Usage: critical\n                Certificate Sign, CRL Sign\n" in ca
        key = self.openssl("pkey", "-in", certs / "n1.key", "-noout", "-text").stdout
        assert "NIST CURVE: P-256\n" in key
        assert (certs / "n1.key").read_text().startswith("-----BEGIN PRIVATE KEY-----\n"), "PKCS #8"

    def test_its_client(self, certs: Path) -> None:
        with serving(certs, trusted=certs / "ca.crt") as port:
            words = ("s_client", "-connect", f"127.0.0.1:{port}", "-CAfile", certs / "ca.crt", "-verify_return_error")
            own = ("-verify_hostname", "localhost", "-cert", certs / "alice.crt", "-key", certs / "alice.key")
            done = self.openssl(*words, *own, "-ign_eof", "-quiet")
            assert "user alice\n" in done.stdout, done.stderr
            wrong = self.openssl(*words, *own, "-verify_hostname", "example.org")
            assert wrong.returncode != 0
            assert "hostname mismatch" in wrong.stdout + wrong.stderr
