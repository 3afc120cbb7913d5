"""A server with TLS and users in a process of its own, and programs in Go that are its clients."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import ServerProcess, run_duramen
from kit.clients.programs import ROOT, built, need, run_checked
from kit.deadlines import patience_s

__all__ = ["GO_USERS", "ServerWithUsers", "go_users"]

GO_USERS: Final = ROOT / "tests" / "clients" / "go_users"


def go_users(folder: Path, *names: str) -> Path:
    """Build programs of `GO_USERS` into a folder, with the stubs of `examples/clients/go`. Returns the folder."""
    need(["go"])
    built("go")
    run_checked(["go", "build", "-o", f"{folder}/", *(f"./{name}" for name in names)], GO_USERS)
    return folder


class ServerWithUsers:
    """A server whose folder is as the documentation has it: `certs/ca.crt`, `alice.token`.

    In `elsewhere`, `certs/ca.crt` is of a CA that has nothing to do with the server.
    """

    def __init__(self, folder: Path, tables: Sequence[str], grants: Mapping[str, Sequence[str]]) -> None:
        """`grants`: of each user besides `admin`."""
        self.folder, self.elsewhere = folder, folder / "elsewhere"
        self.certs = CertsAtHand(folder)
        (self.elsewhere / "certs").mkdir(parents=True)
        shutil.copy(self.certs.other_ca, self.elsewhere / "certs" / "ca.crt")
        first = ["--certs", str(self.certs.path), "--first-user", "admin", "--token-file", str(folder / "admin.token")]
        self.server = ServerProcess(folder / "data", log=folder / "log", arguments=[*first, "--resp-port", "0"])
        try:
            for table in tables:
                self.administer("table", "create", table)
            for user, granted in grants.items():
                given = [word for grant in granted for word in ("--grant", grant)]
                self.administer("user", "add", user, "--token-file", str(folder / f"{user}.token"), *given)
        except BaseException:
            self.server.close()
            raise

    def administer(self, *words: str) -> None:
        admin = ["--token-file", str(self.folder / "admin.token")]
        done = run_duramen(*admin, *words, "--ca", str(self.certs.ca), at=f"duramens://{self.address('port')}")
        assert done.returncode == 0, (words, done.stderr)

    def address(self, port: str) -> str:
        return f"localhost:{self.server.announcement[port]}"

    def token(self, user: str) -> str:
        return (self.folder / f"{user}.token").read_text().strip() if user else ""

    def run(
        self, command: list[str], *, folder: Path | None = None, seconds: float = 90, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder or self.folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience_s(seconds),
            check=False,
        )
