"""A cluster of three nodes in processes of their own, each with a RESP endpoint."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kit.client.server_process import read_line
from kit.deadlines import patience_s
from kit.warm.warm_process import WarmProcess

__all__ = ["NODES", "UpCluster"]

NODES = 3


class UpCluster:
    """`duramen up --nodes 3 --resp-port 0`."""

    def __init__(
        self,
        folder: Path,
        *,
        readers: int = 0,
        certs: Path | None = None,
        token_file: Path | None = None,
        log: str | None = None,
        host: str = "",
        insecure: bool = False,
        within: Sequence[str] = (),
    ) -> None:
        """`readers`: reader processes of each node. `certs`: for TLS, a folder of certificates. `token_file`: where the
        token of a first user goes, `admin`. `log`: the URL of a log that is not the cluster's own. `host`: where it
        listens; empty: loopback. `insecure`: perhaps without users. `within`: the beginning of the command, for a
        cluster on another machine.
        """
        command = f"-m duramen up --nodes {NODES} --port 0 --resp-port 0 --json --data {folder / 'data'}"
        command += f" --resp-readers {readers}"
        command += "" if certs is None else f" --certs {certs}"
        command += "" if token_file is None else f" --first-user admin --token-file {token_file}"
        command += "" if log is None else f" --log {log}"
        command += f" --host {host}" if host else ""
        command += " --insecure" if insecure else ""
        with (folder / "cluster.log").open("ab") as output:
            self.process = WarmProcess[bytes](
                [*within, sys.executable, *command.split()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=output,
            )
        self.endpoints: dict[str, int] = {}
        """The RESP endpoint of each process."""
        self.ports: dict[str, int] = {}
        """The gRPC endpoint of each process."""
        self.pids: dict[str, int] = {}
        while True:
            event = json.loads(read_line(self.process, 60) or b'{"event": "nothing"}')
            assert event["event"] in ("child", "started"), event
            if event["event"] == "started":
                self.port = event["port"]
                assert event["resp_port"] == self.endpoints["router"]
                return
            self.pids[event["name"]], self.ports[event["name"]] = event["pid"], event["port"]
            if "resp_port" in event:
                self.endpoints[event["name"]] = event["resp_port"]

    def close(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=patience_s(60))
