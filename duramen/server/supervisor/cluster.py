"""The children of `duramen up --nodes N`, in their order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from duramen.server.supervisor.child import Child, Event
from duramen.server.supervisor.forked import ForkServer
from duramen.server.wiring.first_user import FIRST_USER_VARIABLE, FirstUser, kept_token
from duramen.server.wiring.foreign_names import DATA_NAMES, refuse_foreign
from log_tier.embedded.storage.refusal import refusal_of
from log_tier.model.errors import InvalidRequest
from log_tier.privacy.private_files import make_private, tighten
from log_tier.rpc.address import is_loopback
from serving_tier.names import NODES_FOLDER, OUTPUT_FOLDER, SNAPSHOTS_FOLDER

__all__ = ["NODES_MAX", "ClusterOptions", "supervise"]

# Each is a Python process of some 60 MiB; a machine with memory for more has an init system too.
NODES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of `duramen up --nodes N`."""

    nodes: int
    """How many serving nodes, 1 to `NODES_MAX`."""
    host: str
    port: int
    """The router's port; 0 picks a free port and reports it."""
    log_level: str
    log_format: str
    snapshot_every_s: float
    traces: str = "none"
    """Where spans of calls go."""
    log_url: str | None = field(default=None, repr=False)
    """Where the log is; None: a process of the cluster, with its data below the data folder."""
    take_over: bool = False
    """The folders of nodes of these names on that log are lost."""
    allow_locations: tuple[str, ...] = ()
    """Folders and buckets that callers may have the nodes open, in addition to the cluster's snapshot store."""
    http_port: int | None = None
    """The router's port of health, status and metrics; the nodes have theirs on ports of their own. -1: none; None: see
    `HTTP_PORT`.
    """
    history: bool = True
    """Do nodes and router keep their history in a table?"""
    resp_port: int | None = None
    """The router's RESP endpoint; the nodes then have theirs on ports of their own. None: no RESP endpoints."""
    resp_password: str = field(default="", repr=False)
    resp_cache_mebibytes: int = 512
    """The memory of each node's value caches. `resp_readers`: the reader processes of each node."""
    resp_readers: int = 0
    resp_clients_mebibytes: int = 1024
    """What all connections of one of its RESP endpoints may hold together."""
    heal_after_s: float = 600.0
    """For how long a node is lost before the router places its replicas at others; 0: it never does."""
    relieve_after_s: float = 600.0
    """For how long a node is full, slow or hot before the router moves replicas away from it; 0: it never does."""
    streams_max: int = 8192
    """How many streams of gRPC a node, or the router, may have open at once."""
    slow_call_ms: int = 100
    """From which duration on its servers note a call; 0: none."""
    certs: Path | None = None
    """The folder of the certificate that all its servers share; None: plain TCP."""
    insecure: bool = False
    """With certificates: it may do without users where other machines reach it."""
    peer_port: int | None = None
    """The router's port where clients show certificates; None: none. Nodes with certificates have one each."""
    first_user: FirstUser | None = None
    """Whom to make where the catalog has no users; needs `certs`."""
    audit_tables: tuple[str, ...] = ()
    """What its servers audit on top of the usual. `audit_days`: how long the rows stay."""
    audit_days: float = 90.0


async def supervise(data: Path, options: ClusterOptions, tell: Event) -> None:
    """Run a cluster below `data` until SIGTERM or SIGINT. `tell` gets each event, as the JSON lines of `--json`.

    Raises what keeps a child from starting for the first time; then everything is stopped again.
    """
    if not 1 <= options.nodes <= NODES_MAX:
        raise InvalidRequest(f"--nodes takes 1 to {NODES_MAX}, not {options.nodes}")
    data = await asyncio.to_thread(_prepare, data)
    first, is_new = await asyncio.to_thread(_first_user, options)
    children: list[Child] = []
    runs: list[asyncio.Task[None]] = []
    forks = ForkServer(data / OUTPUT_FOLDER / "forks.log")
    with _signals() as stop:
        try:
            await _start_all(data, options, tell, forks, children, stop, first)
            if is_new and options.first_user is not None and _made(children) == "there":
                await asyncio.to_thread(_forget_token, options.first_user)
            runs = [asyncio.create_task(child.run(), name=f"run {child.name}") for child in children]
            if not stop.done():
                tell(_started(data, options, children))
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
            await forks.close()
    tell({"event": "stopped"})


@contextmanager
def _signals() -> Iterator[asyncio.Future[str]]:
    """The name of the first SIGTERM or SIGINT, when it comes. A second one ends this process at once."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[str] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if stop.done():
            os._exit(128 + number)  # asked twice: the children get their SIGTERM from the kernel
        stop.set_result(number.name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _first_user(options: ClusterOptions) -> tuple[dict[str, str], bool]:
    """The environment by which the children make the first user, and whether its token was written just now. The token
    stays here.
    """
    if options.first_user is None:
        return {}, False
    if options.certs is None:
        raise InvalidRequest(
            "a cluster with users needs certificates, by which its servers prove themselves to each other: `duramen "
            "cert init && duramen cert issue server --server localhost,127.0.0.1`, then --certs certs"
        )
    token, is_new = kept_token(options.first_user)
    return {FIRST_USER_VARIABLE: FirstUser(options.first_user.name, token=token).handed()}, is_new


def _made(children: Sequence[Child]) -> str:
    """What became of the first user: `made` if any child made it."""
    said = {child.first_user for child in children} - {""}
    return "made" if "made" in said else "there" if said else ""


def _forget_token(first: FirstUser) -> None:
    """Remove a new token of a user that was there before: it proves nobody."""
    if first.token_file is not None:
        first.token_file.unlink(missing_ok=True)


def _started(data: Path, options: ClusterOptions, children: Sequence[Child]) -> dict[str, Any]:
    router = children[-1]
    return {
        "event": "started",
        "host": options.host,
        "port": router.port,
        **({"http_port": router.http_at} if router.http_at else {}),
        **({"resp_port": router.resp_port} if options.resp_port is not None else {}),
        **({"peer_port": router.peer_port} if options.peer_port is not None else {}),
        "pid": os.getpid(),
        "data": str(data),
        **({"certs": str(options.certs.absolute())} if options.certs is not None else {}),
        **({"first_user": _made(children)} if options.first_user is not None else {}),
    }


async def _start_all(
    data: Path,
    options: ClusterOptions,
    tell: Event,
    forks: ForkServer,
    children: list[Child],
    stop: asyncio.Future[str],
    first: dict[str, str],
) -> None:
    """Start the log, then the nodes all at once, then the router; each joins `children` before it starts. `first`: what
    nodes and router find in their environment.
    """
    common = ["--host", options.host, *_logging(options), *_certs(options)]
    output = data / OUTPUT_FOLDER
    url = options.log_url
    if url is None:
        log = Child("log", "log", [*common, "--data", str(data)], forks=forks, output=output / "log.err", tell=tell)
        log.http_port = _http_port_of_child(options)
        log.environment = _slow("LOG", options)
        children.append(log)
        await log.start()
        url = f"grpc://{_reachable(options.host)}:{log.port}"
    nodes = [_node(f"n{number}", data, options, url, forks, tell) for number in range(1, options.nodes + 1)]
    for node in nodes:
        node.environment |= first
    children.extend(nodes)
    await asyncio.gather(*(child.start() for child in nodes))
    if stop.done():
        return
    arguments = [*common, *_allowing(data, options)]
    router = Child("router", "router", arguments, forks=forks, output=output / "router.err", tell=tell)
    # The log's URL may hold a secret, which an argument would show to other users.
    router.environment = {
        "DURAMEN_ROUTER_LOG": url,
        "DURAMEN_ROUTER_HEAL_AFTER_S": str(options.heal_after_s),
        "DURAMEN_ROUTER_RELIEVE_AFTER_S": str(options.relieve_after_s),
        **first,
        **_audit("ROUTER", options),
        **_streams("ROUTER", options),
    }
    if options.resp_port is not None:
        router.resp_port = options.resp_port
        router.environment |= _resp("ROUTER", options)
    router.peer_port, router.http_port = options.peer_port, options.http_port
    children.append(router)
    await router.start(port=options.port)


def _http_port_of_child(options: ClusterOptions) -> int:
    """A free port at the address of the cluster, unless other machines would reach it and nobody has named a port."""
    named = is_loopback(options.host) if options.http_port is None else options.http_port >= 0
    return 0 if named else -1


def _node(name: str, data: Path, options: ClusterOptions, log_url: str, forks: ForkServer, tell: Event) -> Child:
    """One serving node, not started yet."""
    store = _store(data)
    # A log's folder that is ours alone has no other node of that name: one of the time when everything was one process
    # has no other owner.
    take_over = options.log_url is None or options.take_over
    arguments = [
        *("--host", options.host, *_logging(options), *_certs(options)),
        *("--id", name, "--data", str(data / NODES_FOLDER / name), "--snapshots", store),
        *("--advertise-host", _reachable(options.host), "--snapshot-every-s", str(options.snapshot_every_s)),
        *(["--take-over"] if take_over else []),
        *_allowing(data, options),
    ]
    child = Child("node", name, arguments, forks=forks, output=data / OUTPUT_FOLDER / f"{name}.err", tell=tell)
    child.environment = {"DURAMEN_NODE_LOG": log_url, **_audit("NODE", options), **_streams("NODE", options)}
    child.peer_port = None if options.certs is None else 0
    child.http_port = _http_port_of_child(options)
    if options.resp_port is not None:
        child.resp_port = 0
        child.environment |= {
            **_resp("NODE", options),
            "DURAMEN_NODE_RESP_CACHE_MEBIBYTES": str(options.resp_cache_mebibytes),
            "DURAMEN_NODE_RESP_READERS": str(options.resp_readers),
        }
    return child


def _resp(role: str, options: ClusterOptions) -> dict[str, str]:
    """What each RESP endpoint has. The password in an argument would be for other users to read."""
    return {
        f"DURAMEN_{role}_RESP_PASSWORD": options.resp_password,
        f"DURAMEN_{role}_RESP_CLIENTS_MEBIBYTES": str(options.resp_clients_mebibytes),
    }


def _certs(options: ClusterOptions) -> list[str]:
    """What each child says of TLS. Without certificates the parent has checked the address."""
    certs = [] if options.certs is None else ["--certs", str(options.certs.absolute())]
    return [*certs, *(["--insecure"] if options.certs is None or options.insecure else [])]


def _logging(options: ClusterOptions) -> list[str]:
    return ["--log-level", options.log_level, "--log-format", options.log_format, "--traces", options.traces]


def _audit(role: str, options: ClusterOptions) -> dict[str, str]:
    """The environment of each child for what it audits."""
    return {
        f"DURAMEN_{role}_AUDIT_TABLES": json.dumps(options.audit_tables),
        f"DURAMEN_{role}_AUDIT_DAYS": str(options.audit_days),
    }


def _streams(role: str, options: ClusterOptions) -> dict[str, str]:
    """How many streams each child may have open, which calls it notes, and whether it keeps its history."""
    return {
        f"DURAMEN_{role}_STREAMS_MAX": str(options.streams_max),
        f"DURAMEN_{role}_HISTORY": str(options.history).lower(),
        **_slow(role, options),
    }


def _slow(role: str, options: ClusterOptions) -> dict[str, str]:
    return {f"DURAMEN_{role}_SLOW_CALL_MS": str(options.slow_call_ms)}


def _store(data: Path) -> str:
    return f"file://{quote(str(data / SNAPSHOTS_FOLDER))}"


def _allowing(data: Path, options: ClusterOptions) -> list[str]:
    """The arguments for what the cluster's router and nodes open: all of them the same."""
    return [part for url in (_store(data), *options.allow_locations) for part in ("--allow-location", url)]


def _reachable(host: str) -> str:
    return "127.0.0.1" if host in ("0.0.0.0", "") else host


def _prepare(data: Path) -> Path:
    """Make the folder, or refuse one that another program made; return its absolute path."""
    data = data.absolute()
    try:
        refuse_foreign(data, DATA_NAMES)
        make_private(data)
        tighten(data)
        for name in (NODES_FOLDER, SNAPSHOTS_FOLDER, OUTPUT_FOLDER):
            make_private(data / name)
    except OSError as error:
        raise refusal_of(error, data) from error
    return data
