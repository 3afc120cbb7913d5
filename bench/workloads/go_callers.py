"""64 callers of a Go program: `duramen.v1.KV` compared with etcd by etcd's own Go client, one connection each.

The load is one Go program (`bench/go_kv`), so both servers are driven at the same cost, and neither by Python.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.drivers.duramen import SERVER_NEEDS
from bench.server_process import ServerProcess, free_port
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload, find_binary

__all__ = ["GO_CALLERS"]

CALLERS: Final = 64

_FOLDER: Final = Path(__file__).resolve().parents[1] / "go_kv"
_PROGRAM: Final = _FOLDER / "bin" / "gokv"

_GO: Final = "Debian: golang-go"
_DURAMEN_NEEDS: Final = Needs((*SERVER_NEEDS.modules, "grpc_tools"), ("go",), _GO)
_ETCD_NEEDS: Final = Needs(("grpc_tools",), ("go", "etcd"), f"Debian: etcd-server; {_GO}")


def _build() -> None:
    """Build the program, where it is not built; its modules come from the Go module proxy."""
    environment = {**os.environ, "PROTOC": f"{sys.executable} -m grpc_tools.protoc"}
    subprocess.run([str(_FOLDER / "build")], env=environment, check=True, stdout=subprocess.DEVNULL)


async def _start(server: str, folder: Path) -> tuple[ServerProcess, str]:
    """Start a server on an empty folder; with what its report says of its version."""
    port = free_port()
    if server == "duramen":
        program = str(Path(sys.executable).with_name("duramen"))
        command = [program, "up", "--data", str(folder / "data"), "--port", str(port)]
        return await ServerProcess.start(command, port=port, folder=folder), "Duramen, duramen.v1.KV"
    binary = find_binary("etcd")
    assert binary is not None, "a side runs only where nothing is missing"
    said = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout  # noqa: ASYNC221
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        f"--data-dir={folder / 'data'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]
    return await ServerProcess.start(command, port=port, folder=folder), f"etcd {said.split()[2]}"


async def _measured(server: str, call: str, settings: RunSettings) -> Measurement:
    await asyncio.to_thread(_build)
    process, version = await _start(server, settings.folder)
    try:
        load = await asyncio.create_subprocess_exec(
            str(_PROGRAM),
            *("-server", server, "-at", f"127.0.0.1:{process.port}", "-call", call),
            *("-callers", str(CALLERS), "-seconds", str(settings.seconds)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        said, complained = await load.communicate()
        if load.returncode != 0:
            raise RuntimeError(f"gokv {server} {call} ended with {load.returncode}: {complained.decode()[-500:]}")
    finally:
        await process.stop()
    return Measurement(json.loads(said), version, f"{CALLERS} goroutines, one connection; synced before every reply")


def _side(server: str, call: str) -> Side:
    def run(settings: RunSettings) -> Measurement:
        return asyncio.run(_measured(server, call, settings))

    duramen = server == "duramen"
    return Side(server, "subject" if duramen else "peer", run, _DURAMEN_NEEDS if duramen else _ETCD_NEEDS)


# The ratios are what is reported; the bars, half of what was found or less, keep them from falling far.
GO_CALLERS: Final = (
    Workload(
        "go_put",
        f"durable put, {CALLERS} Go callers, duramen.v1.KV",
        (_side("duramen", "put"), _side("etcd", "put")),
        (Bar("per_second", "at least", 0.05, "etcd"),),
    ),
    Workload(
        "go_get",
        f"get, {CALLERS} Go callers, duramen.v1.KV, 10,000 keys",
        (_side("duramen", "get"), _side("etcd", "get")),
        (Bar("per_second", "at least", 0.05, "etcd"),),
    ),
)
