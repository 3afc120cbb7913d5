"""What the options of TLS and of a user become, before any server is asked."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from kit.certs_at_hand import CertsAtHand

from log_tier.access.tokens import mint_token
from log_tier.model.errors import CertificateInvalid, InvalidRequest
from log_tier.rpc.credentials import CREDENTIALS
from log_tier.rpc.security import SECURITY
from spark_bulk.source.model.catalog_tables import carried_options, with_options
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.options import parse_read_options, parse_write_options


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> CertsAtHand:
    return CertsAtHand(tmp_path_factory.mktemp("spark"))


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "alice.token"
    file.touch(0o600)
    file.write_text(mint_token("alice").text)
    return file


def test_it_holds_paths_and_travels(certs: CertsAtHand, token_file: Path) -> None:
    text = token_file.read_text()
    login = ClusterLogin.of("duramens://alice@a:1,b:2", ca=str(certs.ca), token_file=str(token_file), environment={})
    assert login == ClusterLogin(("a:1", "b:2"), str(certs.ca), str(token_file), "alice")
    sent = pickle.dumps(login)
    assert text.encode() not in sent
    assert text not in repr(login)
    with pickle.loads(sent).used():
        security, credentials = SECURITY.get(), CREDENTIALS.get()
        assert security is not None
        assert security.read().ca == certs.ca.read_bytes()
        assert credentials is not None
        assert (credentials.user, credentials.secret()) == ("alice", text)
    assert (SECURITY.get(), CREDENTIALS.get()) == (None, None)


def test_two_users_of_a_process_are_two(token_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "bob.token"
    other.touch(0o600)
    other.write_text(mint_token("bob").text)
    users = []
    for file in (token_file, other, token_file):
        with ClusterLogin.of("a:1", token_file=file, environment={}).used():
            credentials = CREDENTIALS.get()
            assert credentials is not None
            users.append(credentials.user)
    assert users == ["alice", "bob", "alice"]


def test_the_environment_counts_where_no_option_does(certs: CertsAtHand, token_file: Path) -> None:
    environment = {"DURAMEN_CA": str(certs.ca), "DURAMEN_TOKEN_FILE": str(token_file)}
    assert ClusterLogin.of("duramens://a:1", environment=environment) == ClusterLogin(
        ("a:1",), str(certs.ca), str(token_file)
    )
    assert ClusterLogin.of("a:1", environment=environment).ca == "", "a CA is for servers with TLS"
    given = ClusterLogin.of("duramens://a:1", ca=certs.other_ca, environment=environment)
    assert given.ca == str(certs.other_ca)


def test_a_replaced_file_counts_from_the_next_call_on(token_file: Path) -> None:
    login = ClusterLogin.of("a:1", token_file=token_file, environment={})
    with login.used():
        credentials = CREDENTIALS.get()
    assert credentials is not None
    newer = mint_token("alice").text
    token_file.write_text(newer)
    assert credentials.secret() == newer


def test_what_does_not_go_together_is_refused_by_the_driver(
    certs: CertsAtHand, token_file: Path, tmp_path: Path
) -> None:
    secret = "dt1_not_to_be_shown_alice"
    ca, tls = str(certs.ca), "duramens://a:1"
    for words, at, given, environment in (
        ("needs the CA", tls, {}, {}),
        ("call a:1 with duramens://", "a:1", {"ca": ca}, {}),
        ("names the user alice, and `user` says bob", "duramens://alice@a:1", {"ca": ca, "user": "bob"}, {}),
        ("nothing proves the user alice", "duramen://alice@a:1", {}, {}),
        ("DURAMEN_TOKEN stays with Spark's driver", tls, {"ca": ca}, {"DURAMEN_TOKEN": secret}),
        ("DURAMEN_PASSWORD stays", "duramen://alice@a:1", {}, {"DURAMEN_PASSWORD": secret}),
        ("is a token of the user alice, not of bob", "bob@a:1", {"token_file": str(token_file)}, {}),
        ("cannot be read|No such file|is not there", "a:1", {"token_file": str(tmp_path / "none")}, {}),
    ):
        with pytest.raises(InvalidRequest, match=words) as refused:
            ClusterLogin.of(at, **given, environment=environment)
        assert secret not in refused.value.message
    with pytest.raises(CertificateInvalid, match="holds no certificate"):
        ClusterLogin.of(tls, ca=str(token_file), environment={})
    token_file.chmod(0o644)
    with pytest.raises(InvalidRequest, match=r"0600|other users"):
        ClusterLogin.of("a:1", token_file=token_file, environment={})


def test_options_name_the_files(certs: CertsAtHand, token_file: Path) -> None:
    place = {"at": "duramens://a:1", "table": "flights", "ca": str(certs.ca), "token_file": str(token_file)}
    expected = ClusterLogin(("a:1",), str(certs.ca), str(token_file))
    assert parse_read_options(place).login == expected
    assert parse_write_options({**place, "user": "alice"}).login.user == "alice"
    with pytest.raises(InvalidRequest, match="password is no option"):
        parse_read_options({**place, "password": "x"})
    carried = carried_options([with_options("key BINARY, value BINARY", place).split("'")[1]])
    assert parse_read_options(carried).login == expected
