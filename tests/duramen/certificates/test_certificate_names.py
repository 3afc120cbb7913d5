"""What a certificate may be called and valid for, and the names of its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from duramen.certificates import names
from duramen.certificates.lifetimes import DAYS_MAX, lifetime_of_days
from log_tier.model.errors import InvalidName, InvalidRequest

pytestmark = pytest.mark.embedded_log_only


@pytest.mark.parametrize("name", ["alice", "n1.example.org", "_x", "7", "A-b_c.d", "x" * 64, "ca1", "alice.crt"])
def test_names_that_can_be(name: str) -> None:
    assert names.check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "ca", "CA", ".", "..", ".hidden", "-v", "a/b", "a\\b", "a b", "a\n", "a\0", "é", "x" * 65, "a:b", "*"]
)
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(InvalidName, match="cannot name a certificate"):
        names.check_name(name)


@pytest.mark.parametrize("name", ["", "x" * 65, "a\nb", "a\x1b[2J"])
def test_names_that_no_ca_can_have(name: str) -> None:
    with pytest.raises(InvalidName, match="cannot name a CA"):
        names.check_authority_name(name)
    assert names.check_authority_name("Beispiel & Söhne CA") == "Beispiel & Söhne CA"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("localhost", ("localhost",)),
        ("localhost,127.0.0.1,::1", ("localhost", "127.0.0.1", "::1")),
        (" DB1.Example.org , db1.example.org", ("db1.example.org",)),
        ("0:0::1,::1", ("::1",)),
        ("*.example.org,_srv.x,xn--mnchen-3ya.de", ("*.example.org", "_srv.x", "xn--mnchen-3ya.de")),
        ("2001:db8::1", ("2001:db8::1",)),
    ],
)
def test_hosts(text: str, hosts: tuple[str, ...]) -> None:
    assert names.parse_hosts(text) == hosts


@pytest.mark.parametrize(
    "text",
    [
        *("", "a,,b", "http://a", "a:7070", "[::1]", "a b", "münchen.de", "-a.de", "a-.de", "a..b", "a.", "*", "a.*.b"),
        *(
            "300.1.1.1",
            "127.0.0",
            "10",
            "x" * 64 + ".de",
            ".".join(["a" * 60] * 5),
            "a\0b",
            "127.0.0.1/8",
            "fe80::1%eth0",
        ),
    ],
)
def test_hosts_that_are_none(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"neither a DNS name nor an IP address|has a zone"):
        names.parse_hosts(text)


def test_there_is_a_limit_of_hosts() -> None:
    assert len(names.parse_hosts(",".join(f"h{number}" for number in range(names.HOSTS_MAX)))) == names.HOSTS_MAX
    with pytest.raises(InvalidRequest, match=f"{names.HOSTS_MAX + 1} hosts"):
        names.parse_hosts(",".join(f"h{number}" for number in range(names.HOSTS_MAX + 1)))


@pytest.mark.parametrize("days", [0, -1, DAYS_MAX + 1])
def test_lifetimes_that_are_none(days: int) -> None:
    with pytest.raises(InvalidRequest, match=f"not {days}"):
        lifetime_of_days(days)


def test_the_files_of_a_folder_are_parsed_as_they_are_built(tmp_path: Path) -> None:
    for name in ("ca", "alice", "n1.example.org", "x.crt"):
        for file in names.files_of(tmp_path, name):
            file.touch()
    names.part_of(names.files_of(tmp_path, "begun").key).touch()
    names.lock_of(tmp_path).touch()
    for other in ("notes.txt", "-v.crt", ".hidden.crt", "a b.key"):
        (tmp_path / other).touch()
    assert names.leaf_names(tmp_path) == ["alice", "n1.example.org", "x.crt"]
    assert names.pair_names(tmp_path) == ["alice", "begun", "ca", "n1.example.org", "x.crt"]
