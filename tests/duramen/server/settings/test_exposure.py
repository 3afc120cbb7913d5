"""An address that others reach needs certificates, or --insecure."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.command_line import lines, run_here
from kit.client.server_process import ServerProcess
from kit.cluster.up_cluster import UpCluster

from duramen.server.settings.exposure import check_exposure
from log_tier.model.errors import InvalidRequest

pytestmark = pytest.mark.embedded_log_only  # what is asked is the server, and not where its log is

HOSTS: Final = ("localhost", "127.0.0.1")
"""Of a cluster's certificate: its processes call each other by the address."""


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
    done = run_here(*command, *data, "--host", "0.0.0.0", "--port", "0")
    assert (done.returncode, "--certs certs" in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("nodes", [[], ["--nodes", "1"]], ids=["one process", "a cluster"])
def test_certificates_without_users_are_no_start(nodes: list[str], tmp_path: Path) -> None:
    certs = ["--certs", str(CertsAtHand(tmp_path, hosts=HOSTS).path)]
    done = run_here("up", *nodes, "--data", str(tmp_path / "data"), "--host", "0.0.0.0", "--port", "0", *certs)
    assert (done.returncode, "--first-user admin" in done.stderr, "--insecure" in done.stderr) == (2, True, True), done


@pytest.mark.parametrize("role", ["node", "router"])
def test_a_role_with_certificates_and_without_users_is_no_start(role: str, tmp_path: Path) -> None:
    certs = ["--certs", str(CertsAtHand(tmp_path).path)]
    data = ["--id", "n1", "--data", str(tmp_path / "data")] if role == "node" else []
    given = ["--log", f"file://{tmp_path / 'log'}", "--host", "0.0.0.0", "--port", "0", *data, *certs]
    done = run_here("serve", role, *given)
    assert (done.returncode, "first_user" in done.stderr, "--insecure" in done.stderr) == (2, True, True), done


def test_a_cluster_with_certificates_may_have_no_users_where_that_is_said(tmp_path: Path) -> None:
    certs = CertsAtHand(tmp_path, hosts=HOSTS)
    cluster = UpCluster(tmp_path, certs=certs.path, host="0.0.0.0", insecure=True)
    try:
        at = ["--at", f"duramens://localhost:{cluster.port}", "--ca", str(certs.ca)]
        said = run_here("admin", "nodes", *at).stdout
    finally:
        cluster.close()
    assert "n1 has no users" in said, said


def test_insecure_is_said_back(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--host", "0.0.0.0", "--insecure"])
    try:
        (node,) = lines(run_here("admin", "nodes", "--json", at=server.target))
        said = run_here("admin", "nodes", at=server.target).stdout
    finally:
        server.close()
    assert (node["insecure"], "n1 was started with --insecure" in said) == (True, True), said
    assert "everybody who reaches 0.0.0.0" in (tmp_path / "log").read_text()


def test_a_server_that_nobody_else_reaches_is_not_insecure(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", log=tmp_path / "log", arguments=["--insecure"])
    try:
        (node,) = lines(run_here("admin", "nodes", "--json", at=server.target))
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
            (node,) = lines(run_here(*proof, "admin", "nodes", "--json", "--at", at, "--ca", str(certs.ca)))
            said = run_here(*proof, "admin", "nodes", "--at", at, "--ca", str(certs.ca)).stdout
        finally:
            server.close()
        warned = "there are no users: everybody who reaches 0.0.0.0" in (tmp_path / "log").read_text()
        (tmp_path / "log").unlink()
        shown.append((node["insecure"], node["without_users"], "n1 has no users" in said, warned))
    assert shown == [(False, True, True, True), (False, False, False, False)]
