"""An address that others reach needs certificates, or --insecure."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.command_line import lines
from kit.client.server_process import ServerProcess, run_duramen

from duramen.server.settings.exposure import check_exposure
from log_tier.model.errors import InvalidRequest

pytestmark = pytest.mark.embedded_log_only  # what is asked is the server, and not where its log is


def test_others_need_certificates_or_a_word(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(InvalidRequest, match=r"0\.0\.0\.0 is reached by other machines.*--certs certs.*--insecure"):
        check_exposure("0.0.0.0", certs="", insecure=False)
    with pytest.raises(InvalidRequest, match="every address"):
        check_exposure("", certs=None, insecure=False)
    check_exposure("0.0.0.0", certs="certs", insecure=False)
    check_exposure("127.0.0.1", certs=None, insecure=False)
    assert caplog.text == ""
    check_exposure("0.0.0.0", certs=None, insecure=True)
    assert "--insecure" in caplog.text


@pytest.mark.parametrize(
    "command", [["up"], ["up", "--nodes", "1"], ["serve", "log"], ["serve", "node"], ["serve", "router"]]
)
def test_every_role_is_refused_before_it_makes_a_folder(command: list[str], tmp_path: Path) -> None:
    data = [] if command[-1] == "router" else ["--data", str(tmp_path / "data")]
    done = run_duramen(*command, *data, "--host", "0.0.0.0", "--port", "0")
    assert (done.returncode, "--certs certs" in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_insecure_is_said_back(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--host", "0.0.0.0", "--insecure"])
    try:
        (node,) = lines(run_duramen("admin", "nodes", "--json", at=server.target))
        said = run_duramen("admin", "nodes", at=server.target).stdout
    finally:
        server.close()
    assert (node["insecure"], "n1 was started with --insecure" in said) == (True, True), said
    assert "everybody who reaches 0.0.0.0" in (tmp_path / "log").read_text()


def test_a_server_that_nobody_else_reaches_is_not_insecure(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--insecure"])
    try:
        (node,) = lines(run_duramen("admin", "nodes", "--json", at=server.target))
    finally:
        server.close()
    assert not node["insecure"]


def test_certificates_without_users_are_said_back_until_there_is_one(tmp_path: Path) -> None:
    certs, token_file = CertsAtHand(tmp_path), tmp_path / "admin.token"
    arguments = ["--host", "0.0.0.0", "--certs", str(certs.path)]
    shown = []
    for more in (["--insecure"], ["--first-user", "admin", "--token-file", str(token_file)]):
        server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=[*arguments, *more])
        at = f"duramens://localhost:{server.announcement['port']}"
        proof = ["--token-file", str(token_file)] if token_file.exists() else []
        try:
            (node,) = lines(run_duramen(*proof, "admin", "nodes", "--json", "--at", at, "--ca", str(certs.ca)))
            said = run_duramen(*proof, "admin", "nodes", "--at", at, "--ca", str(certs.ca)).stdout
        finally:
            server.close()
        warned = "there are no users: everybody who reaches 0.0.0.0" in (tmp_path / "log").read_text()
        (tmp_path / "log").unlink()
        shown.append((node["insecure"], node["without_users"], "n1 has no users" in said, warned))
    assert shown == [(False, True, True, True), (False, False, False, False)]
