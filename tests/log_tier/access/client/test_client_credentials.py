"""Who a client says it is: what is given, what the environment says, and what is refused before anything is sent."""

from __future__ import annotations

import logging
import os
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest

from log_tier.access.client.client_credentials import client_credentials
from log_tier.access.client.client_target import parse_target
from log_tier.access.client.kept_credentials import PasswordCredentials, TokenCredentials, TokenFileCredentials
from log_tier.access.tokens import mint_token
from log_tier.model.errors import InvalidName, InvalidRequest
from log_tier.privacy.secret_files import read_secret_file
from log_tier.rpc.credentials import basic_header, bearer_header, check_kept

ALICE = mint_token("alice").text
BOB = mint_token("bob").text
PASSWORD = "correct horse battery"


def written(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def chosen(environment: dict[str, str] | None = None, **given: Any) -> Any:
    return client_credentials(environment=environment or {}, **given)


def test_what_is_given_counts_before_the_environment(tmp_path: Path) -> None:
    environment = {"DURAMEN_TOKEN": BOB, "DURAMEN_USER": "bob"}
    assert chosen() is None
    assert chosen({"DURAMEN_TOKEN": "", "DURAMEN_TOKEN_FILE": ""}) is None
    assert chosen(environment, token=ALICE).header() == bearer_header(ALICE)
    assert chosen(environment, user="alice", password=PASSWORD).header() == basic_header("alice", PASSWORD)
    assert chosen({"DURAMEN_TOKEN": BOB}).header() == bearer_header(BOB)
    file = written(tmp_path / "alice.token", ALICE + "\n")
    assert chosen({"DURAMEN_TOKEN_FILE": str(file)}).user == "alice"
    assert chosen({"DURAMEN_USER": "bob", "DURAMEN_PASSWORD": PASSWORD}) == PasswordCredentials("bob", PASSWORD)
    assert chosen({"DURAMEN_USER": "bob", "DURAMEN_PASSWORD": PASSWORD}, address_user="alice").user == "alice"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"token": ALICE, "password": PASSWORD, "user": "alice"}, "three ways to prove one user"),
        ({"token": ALICE, "address_user": "bob"}, "is a token of the user alice, not of bob"),
        ({"user": "alice", "address_user": "bob", "token": ALICE}, "the address names the user bob"),
        ({"user": "alice"}, "nothing proves the user alice"),
        ({"environment": {"DURAMEN_USER": "alice"}}, "nothing proves the user alice"),
        ({"address_user": "alice"}, "nothing proves the user alice"),
        ({"password": PASSWORD}, "a password is a user's"),
        ({"token": PASSWORD}, "the token is no token of Duramen"),
        ({"environment": {"DURAMEN_TOKEN": ALICE, "DURAMEN_TOKEN_FILE": "f"}}, "three ways"),
        ({"token_file": "/nowhere/token"}, "/nowhere/token cannot be read"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as refused:
        chosen(**given)
    said = "".join(traceback.format_exception(refused.value))
    assert ALICE not in said, "a token is in the traceback"
    assert PASSWORD not in said, "a password is in the traceback"


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidName):
        chosen(user="a b", password=PASSWORD)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = written(tmp_path / "alice.token", ALICE, mode)
    with pytest.raises(InvalidRequest, match=f"chmod 600 {file}") as refused:
        chosen(token_file=file)
    assert ALICE not in str(refused.value)
    file.chmod(0o400)
    assert chosen(token_file=file).header() == bearer_header(ALICE)


def test_a_file_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "alice.token", ALICE)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(InvalidRequest, match="belongs to another user of this machine"):
        chosen(token_file=file)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"x" * 5000])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    file = written(tmp_path / "alice.token", "")
    file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=str(file)):
        chosen(token_file=file)


def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = written(tmp_path / "alice.token", ALICE)
    credentials = chosen(token_file=file, user="alice")
    newer = mint_token("alice").text
    os.replace(written(tmp_path / "new", newer), file)
    assert credentials.header() == bearer_header(newer)
    # What cannot be used later is said once, and the token before is used on.
    with caplog.at_level(logging.WARNING):
        for content, mode in ((BOB, 0o600), (newer, 0o644), ("", 0o600)):
            os.replace(written(tmp_path / "new", content, mode), file)
            assert [credentials.header(), credentials.header()] == [bearer_header(newer)] * 2
        file.unlink()
        assert credentials.header() == bearer_header(newer)
    assert len(caplog.records) == 4, caplog.text
    assert newer not in caplog.text
    assert BOB not in caplog.text
    os.replace(written(tmp_path / "new", ALICE), file)
    assert credentials.header() == bearer_header(ALICE)


def test_no_secret_is_shown(tmp_path: Path) -> None:
    file = TokenFileCredentials(written(tmp_path / "alice.token", ALICE))
    for credentials in (TokenCredentials(ALICE, "alice"), PasswordCredentials("alice", PASSWORD), file):
        assert "alice" in repr(credentials)
        assert ALICE not in repr(credentials) + str(credentials)
        assert PASSWORD not in repr(credentials) + str(credentials)
        again = pickle.loads(pickle.dumps(credentials))
        assert (again.user, again.header()) == ("alice", credentials.header())
        assert ALICE not in repr(again)
    assert ALICE.encode() not in pickle.dumps(file), "a pickled file is its path"


def test_a_secret_of_a_fifo_is_read(tmp_path: Path) -> None:
    """`--token-file <(…)` gives a command what no file holds."""
    reading, writing = os.pipe()
    try:
        os.write(writing, ALICE.encode())
        os.close(writing)
        assert read_secret_file(Path(f"/proc/self/fd/{reading}")) == ALICE
    finally:
        os.close(reading)


@pytest.mark.parametrize("target", ["db1:7070", "10.0.0.1:7070", "[2001:db8::1]:7070", "0.0.0.0:7070"])
def test_a_secret_stays_on_this_machine_without_tls(target: str) -> None:
    with pytest.raises(InvalidRequest, match="call it with duramens://") as refused:
        check_kept(target, TokenCredentials(ALICE, "alice"))
    assert ALICE not in str(refused.value)


@pytest.mark.parametrize("target", ["localhost:7070", "127.0.0.1:7070", "[::1]:7070"])
def test_a_secret_may_be_sent_on_this_machine(target: str) -> None:
    check_kept(target, TokenCredentials(ALICE, "alice"))


def test_an_address_names_its_user() -> None:
    assert parse_target("duramens://alice@a:1,b:2") == (("a:1", "b:2"), True, "alice")
    assert parse_target("alice@a:1") == (("a:1",), False, "alice")
    assert parse_target(["duramens://alice@a:1", "duramens://alice@b:2"]).user == "alice"
    for several in (["alice@a:1", "bob@b:2"], ["alice@a:1", "b:2"]):
        with pytest.raises(InvalidRequest, match="several users"):
            parse_target(several)


@pytest.mark.parametrize(
    "target",
    [
        f"duramens://alice:{PASSWORD}@a:1",
        f"alice:{PASSWORD}@a:1",
        f"https://alice:{PASSWORD}@a:1",
        f"duramens://alice:{PASSWORD}@@a:1",
        f"duramens://alice:{PASSWORD}/@a:1,b:2",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_shown(target: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_target(target)
    assert PASSWORD not in "".join(traceback.format_exception(refused.value))
