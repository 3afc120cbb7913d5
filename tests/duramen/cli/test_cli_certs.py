"""`duramen cert`: what it prints, its exit codes, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from kit.client.command_line import lines, run_here
from kit.client.server_process import run_duramen
from kit.passing_days import PassingDays

from duramen.certificates.folder import CertificateFolder
from duramen.certificates.identity import CertificateIdentity, identity_of
from duramen.certificates.pair import read_pair

pytestmark = pytest.mark.embedded_log_only


@pytest.fixture
def certs(tmp_path: Path) -> Path:
    return tmp_path / "certs"


def cert(*words: object, certs: Path) -> subprocess.CompletedProcess[str]:
    return run_here("cert", *map(str, words), "--dir", str(certs))


@pytest.fixture
def issued(certs: Path) -> Path:
    """A folder with a CA, a server and a user."""
    for words in (["init"], ["issue", "n1", "--server", "localhost,127.0.0.1"], ["issue", "alice"]):
        assert cert(*words, certs=certs).returncode == 0
    return certs


def test_each_command_in_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder `certs`, where none is named."""
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["init"], "certs/ca.crt, certs/ca.key: CA Duramen CA, valid to "),
        (["issue", "n1", "--server", "localhost"], "certs/n1.crt, certs/n1.key: server n1, valid to "),
        (["rotate"], "certs/n1.crt, certs/n1.key: server n1, valid to "),
        (["show"], "certs/ca.crt: CA Duramen CA\n  issuer       serialNumber="),
    ):
        done = run_duramen("cert", *words)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith(said)
    assert sorted(os.listdir(tmp_path / "certs")) == [".lock", "ca.crt", "ca.key", "n1.crt", "n1.key"]


def test_init(certs: Path) -> None:
    (made,) = lines(cert("init", "--name", "Example CA", "--days", 10, "--json", certs=certs))
    assert (made["kind"], made["name"], made["file"], made["key"]) == (
        "ca",
        "Example CA",
        f"{certs}/ca.crt",
        f"{certs}/ca.key",
    )
    again = cert("init", certs=certs)
    assert again.returncode == 2
    assert again.stderr.startswith(f"error: {certs}/ca.crt is there already: `duramen cert rotate --ca --dir {certs}`")


def test_issue(issued: Path) -> None:
    (made,) = lines(cert("issue", "n2", "--server", "n2.example.org,::1", "--json", certs=issued))
    assert (made["kind"], made["name"], made["hosts"]) == ("server", "n2", ["n2.example.org", "::1"])
    assert identity_of(read_pair(issued / "n2.crt", issued / "n2.key").certificate) == ("server", "n2")
    for words, code, said in (
        (["alice"], 2, "alice.crt is there already: `duramen cert rotate alice --dir "),
        (["ca"], 2, "'ca' cannot name a certificate"),
        (["a/b"], 2, "'a/b' cannot name a certificate"),
        (["bob", "--server", ""], 2, "'' is neither a DNS name nor an IP address"),
        (["bob", "--server", "localhost:7070"], 2, "'localhost:7070' is neither a DNS name nor an IP address"),
        (["bob", "--days", "0"], 2, "valid for 1 to 36,500 days, not 0"),
    ):
        done = cert("issue", *words, certs=issued)
        assert (done.returncode, done.stdout) == (code, "")
        assert said in done.stderr
    assert not (issued / "bob.key").exists()
    (issued / "ca.key").unlink()
    refused = cert("issue", "bob", "--json", certs=issued)
    assert refused.returncode == 1
    error = json.loads(refused.stderr)
    assert (error["error"], error["fields"]) == ("certificate_invalid", {"file": f"{issued}/ca.key"})


def test_rotate(issued: Path) -> None:
    keys = {name: (issued / f"{name}.key").read_bytes() for name in ("alice", "n1")}
    *made, summary = lines(cert("rotate", "--json", certs=issued))
    assert [each["name"] for each in made] == ["alice", "n1"]
    assert summary == {"reissued": 2, "kept": []}
    for name, key in keys.items():
        assert read_pair(issued / f"{name}.crt", issued / f"{name}.key").key != key
    assert cert("rotate", "alice", "--days", 5, certs=issued).stdout.startswith(f"{issued}/alice.crt, ")
    for words, said in (
        (["bob"], "has no certificate bob"),
        (["alice", "--ca"], "--ca and --finish are about the CA: leave out alice"),
        (["--finish", "--days", "3"], "--finish makes no certificate: leave out --days"),
        (["--ca", "--finish"], "holds one CA, so no change is under way"),
    ):
        done = cert("rotate", *words, certs=issued)
        assert done.returncode == 2
        assert said in done.stderr


def test_rotate_the_ca(issued: Path) -> None:
    begun = cert("rotate", "--ca", certs=issued)
    assert begun.stdout.splitlines()[1:] == [
        f"next: bring {issued}/ca.crt to all machines; `duramen cert rotate --dir {issued}`; bring the new files;",
        f"      then `duramen cert rotate --ca --finish --dir {issued}`",
    ]
    assert "the old CA signed alice, n1: " in cert("rotate", "--ca", "--finish", certs=issued).stderr
    shown = cert("show", certs=issued)
    assert shown.returncode == 0
    assert shown.stdout.count("warning") == 3
    assert cert("rotate", certs=issued).returncode == 0
    assert "CA Duramen CA alone is trusted" in cert("rotate", "--finish", certs=issued).stdout
    assert "warning" not in cert("show", certs=issued).stdout


def test_rotate_where_there_is_nothing(certs: Path) -> None:
    cert("init", certs=certs)
    assert (
        cert("rotate", certs=certs).stdout == f"{certs} has no certificate that its CA signed: nothing was reissued\n"
    )
    (summary,) = lines(cert("rotate", "--json", certs=certs))
    assert summary == {"reissued": 0, "kept": []}


def test_show(certs: Path) -> None:
    time = PassingDays()
    time.pass_days(-0.5)
    folder = CertificateFolder(certs, time.clock)
    folder.make_authority()
    folder.issue(CertificateIdentity("server", "n1"), ("localhost", "127.0.0.1"))
    folder.issue(CertificateIdentity("user", "alice"), ())
    shown = lines(cert("show", "--json", certs=certs))
    assert [(each["kind"], each["name"]) for each in shown] == [
        ("ca", "Duramen CA"),
        ("user", "alice"),
        ("server", "n1"),
    ]
    assert [each["days_left"] for each in shown] == [3649, 364, 364]
    assert shown[2]["hosts"] == ["localhost", "127.0.0.1"]
    assert all(each["problems"] == each["warnings"] == [] for each in shown)
    text = cert("show", certs=certs).stdout
    assert f"{certs}/n1.crt: server n1\n  hosts        localhost, 127.0.0.1\n  issuer       " in text
    assert f"  fingerprint  {shown[2]['sha256']}\n" in text
    assert "364 days left" in text


def test_show_says_what_is_wrong(certs: Path) -> None:
    """A certificate that expires soon, one that has expired, a key that others can read, and a file that is none."""
    time = PassingDays()
    time.pass_days(-100)
    folder = CertificateFolder(certs, time.clock)
    folder.make_authority()
    folder.issue(CertificateIdentity("user", "alice"), (), days=50)
    folder.issue(CertificateIdentity("user", "bob"), (), days=110)
    (certs / "bob.key").chmod(0o644)
    (certs / "torn.crt").write_bytes(b"-----BEGIN")
    done = cert("show", certs=certs)
    assert done.returncode == 1
    assert ", expired\n" in done.stdout
    assert "  PROBLEM      it expired on " in done.stdout
    assert (
        f"  PROBLEM      {certs}/bob.key can be used by others (mode 0644): chmod 600 {certs}/bob.key\n" in done.stdout
    )
    assert "  warning      it expires in less than 30 days: `duramen cert rotate bob --dir " in done.stdout
    assert f"{certs}/torn.crt\n  PROBLEM      {certs}/torn.crt holds no certificate in PEM" in done.stdout
    shown = [json.loads(line) for line in cert("show", "--json", certs=certs).stdout.splitlines()]
    assert shown[-1]["file"] == f"{certs}/torn.crt"
    assert (shown[-1]["days_left"], len(shown[-1]["problems"])) == (None, 1)


def test_no_folder(certs: Path) -> None:
    for words in (["show"], ["issue", "alice"], ["rotate"], ["rotate", "--ca"], ["rotate", "--finish"]):
        done = cert(*words, certs=certs)
        assert done.returncode == 2
        assert f"there is no folder {certs}: `duramen cert init --dir {certs}` makes it" in done.stderr
    assert not certs.exists()
