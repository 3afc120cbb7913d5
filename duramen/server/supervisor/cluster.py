"""The children of `duramen up --nodes N`, in their order."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from duramen.server.supervisor.child import Child, Event
from log_tier.model.errors import ForeignFolder, InvalidRequest

__all__ = ["NODES_MAX", "supervise"]

# Each is a Python process of some 60 MiB; a machine that has room for more has an init system too.
NODES_MAX: Final = 16

_NODES: Final = "nodes"
_SNAPSHOTS: Final = "snapshots"
_OUTPUT: Final = "output"
_OURS: Final = frozenset({"log", "index", "copies", "snapshot-work", "point-in-time", _NODES, _SNAPSHOTS, _OUTPUT})


async def supervise(
    data: Path,
    *,
    nodes: int,
    host: str,
    port: int,
    log_level: str,
    snapshot_every_s: float,
    tell: Event,
    log_url: str | None = None,
    take_over: bool = False,
    resp_port: int | None = None,
    resp_password: str = "",
    resp_cache_mebibytes: int = 512,
    resp_readers: int = 0,
) -> None:
    """Run a cluster below `data` until SIGTERM or SIGINT. `tell` hears what happens, as the JSON lines of `--json`.

    `log_url`: where the log is; None: a process of the cluster, with its data below `data`.
    `take_over`: the folders of nodes of these names on that log are lost.
    `resp_port`: the router's RESP endpoint; the nodes then have theirs on ports of their own. None: no RESP endpoints.
    `resp_cache_mebibytes`, `resp_readers`: of each node.

    Raises what keeps a child from starting for the first time; then everything is stopped again.
    """
    if not 1 <= nodes <= NODES_MAX:
        raise InvalidRequest(f"--nodes takes 1 to {NODES_MAX}, not {nodes}")
    data = await asyncio.to_thread(_prepare, data)
    stop: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_signal(number: signal.Signals) -> None:
        if stop.done():
            os._exit(128 + number)  # asked twice: the children get their SIGTERM from the kernel
        stop.set_result(number.name)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    children: list[Child] = []
    runs: list[asyncio.Task[None]] = []
    try:
        await _start_all(
            data,
            log_url=log_url,
            take_over=take_over,
            nodes=nodes,
            host=host,
            port=port,
            log_level=log_level,
            snapshot_every_s=snapshot_every_s,
            tell=tell,
            children=children,
            stop=stop,
            resp_port=resp_port,
            resp_password=resp_password,
            resp_cache_mebibytes=resp_cache_mebibytes,
            resp_readers=resp_readers,
        )
        runs = [asyncio.create_task(child.run(), name=f"run {child.name}") for child in children]
        if not stop.done():
            tell(
                {
                    "event": "started",
                    "host": host,
                    "port": children[-1].port,
                    **({"resp_port": children[-1].resp_port} if resp_port is not None else {}),
                    "pid": os.getpid(),
                    "data": str(data),
                }
            )
        waited: list[asyncio.Future[Any]] = [stop, *runs]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        for run in runs:
            if run.done():
                run.result()  # a bug of ours: it is not hidden by an orderly end
        tell({"event": "stopping", "signal": stop.result()})
    finally:
        for child in reversed(children):
            await child.stop()
        for run in runs:
            with suppress(asyncio.CancelledError):
                await run
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
    tell({"event": "stopped"})


async def _start_all(
    data: Path,
    *,
    log_url: str | None,
    take_over: bool,
    nodes: int,
    host: str,
    port: int,
    log_level: str,
    snapshot_every_s: float,
    tell: Event,
    children: list[Child],
    stop: asyncio.Future[str],
    resp_port: int | None,
    resp_password: str,
    resp_cache_mebibytes: int,
    resp_readers: int,
) -> None:
    """The log, then the nodes all at once, then the router."""
    common = ["--host", host, "--log-level", log_level]
    output = data / _OUTPUT
    url = log_url
    if url is None:
        log = Child("log", "log", [*common, "--data", str(data)], output=output / "log.err", tell=tell)
        children.append(log)
        await log.start()
        url = f"grpc://{_reachable(host)}:{log.port}"
    store = f"file://{quote(str(data / _SNAPSHOTS))}"
    made = [
        Child(
            "node",
            name,
            [
                *common,
                *("--id", name, "--data", str(data / _NODES / name), "--log", url, "--snapshots", store),
                *("--advertise-host", _reachable(host), "--snapshot-every-s", str(snapshot_every_s)),
                # A log's folder that is ours alone has no other node of that name: one of the time when everything was
                # one process has no other owner.
                *(["--take-over"] if log_url is None or take_over else []),
            ],
            output=output / f"{name}.err",
            tell=tell,
        )
        for name in (f"n{number}" for number in range(1, nodes + 1))
    ]
    for child in made if resp_port is not None else ():
        child.resp_port = 0
        child.environment = {
            "DURAMEN_NODE_RESP_PASSWORD": resp_password,
            "DURAMEN_NODE_RESP_CACHE_MEBIBYTES": str(resp_cache_mebibytes),
            "DURAMEN_NODE_RESP_READERS": str(resp_readers),
        }
    children.extend(made)
    await asyncio.gather(*(child.start() for child in made))
    if stop.done():
        return
    router = Child("router", "router", [*common, "--log", url], output=output / "router.err", tell=tell)
    if resp_port is not None:
        router.resp_port = resp_port
        router.environment = {"DURAMEN_ROUTER_RESP_PASSWORD": resp_password}
    children.append(router)
    await router.start(port=port)


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "") else host


def _prepare(data: Path) -> Path:
    """Make the folder, or refuse one that somebody else made; its absolute path."""
    data = data.absolute()
    if data.exists() and not data.is_dir():
        raise ForeignFolder(f"{data} is a file, the data folder must be a folder: name another one")
    data.mkdir(parents=True, exist_ok=True)
    strangers = sorted(entry.name for entry in data.iterdir() if entry.name not in _OURS)
    if strangers:
        raise ForeignFolder(
            f"{data} holds {', '.join(strangers[:3])}{' …' if len(strangers) > 3 else ''}, which Duramen did not make: "
            "name an empty folder, or one that Duramen made"
        )
    for name in (_NODES, _SNAPSHOTS, _OUTPUT):
        (data / name).mkdir(exist_ok=True)
    return data
