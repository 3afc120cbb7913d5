"""`duramen serve log | node | router`: one role of a cluster in this process."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from duramen.cli.servers.role_announcer import RoleAnnouncer
from duramen.cli.servers.secret_arguments import warn_of_secret_arguments
from duramen.cli.terminal.options import Json
from duramen.server.log_lines.setup import set_up_logging
from duramen.server.supervisor.parent import end_with_parent
from log_tier.model.errors import InvalidRequest
from log_tier.privacy.masked_url import has_secret, mask_url

__all__ = ["app"]

app = typer.Typer(
    help="Run one role of a cluster: the log, a serving node, or a router.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

_Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="A TOML file; deploy/ has a commented one per role.")
]
_Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="The data folder.")]
_Host = Annotated[str | None, typer.Option("--host", help="The address to listen on.")]
_Port = Annotated[int | None, typer.Option("--port", help="The port; 0 picks a free one and prints it.")]
_RespPort = Annotated[
    int | None,
    typer.Option("--resp-port", help="The port of the Redis protocol; 0 picks a free one and prints it, -1: none."),
]
_RespSocket = Annotated[
    str | None, typer.Option("--resp-socket", metavar="PATH", help="The Redis protocol on a Unix socket.")
]
_HttpPort = Annotated[
    int | None,
    typer.Option(
        "--http-port",
        help="The port of health, status and metrics over HTTP, at the address of --host; 0 picks a free one and "
        "prints it, -1: none. Without this: 8080, or a free one where that is taken, for this machine alone.",
    ),
]
_Log = Annotated[
    str | None, typer.Option("--log", metavar="URL", help="Where the log is: grpc:// or kafka://host:port.")
]
_Certs = Annotated[
    str | None, typer.Option("--certs", metavar="DIR", help="TLS: ca.crt and this server's certificate and key.")
]
_PeerPort = Annotated[
    int | None,
    typer.Option(
        "--peer-port", help="With --certs: a port where each client shows a certificate; 0 picks a free one, -1: none."
    ),
]
_Insecure = Annotated[
    bool | None,
    typer.Option("--insecure", help="Listen without TLS, or users, where other machines reach it.", show_default=False),
]
_HealAfter = Annotated[
    float | None,
    typer.Option(
        "--heal-after",
        metavar="SECONDS",
        help="Place the replicas of a node that is lost for so long at other nodes; 0: never.",
        min=0,
    ),
]
_RelieveAfter = Annotated[
    float | None,
    typer.Option(
        "--relieve-after",
        metavar="SECONDS",
        help="Move replicas away from nodes that are full, slow or hot for so long; 0: never.",
        min=0,
    ),
]
_Allowed = Annotated[
    list[str] | None,
    typer.Option("--allow-location", metavar="URL", help="A folder or bucket that callers may name; repeatable."),
]
_Traces = Annotated[
    str | None,
    typer.Option("--traces", metavar="TO", help="otlp: send spans of calls to a collector; none."),
]
_LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")]
_LogFormat = Annotated[str | None, typer.Option("--log-format", help="plain, for people; json, for programs.")]


def _given(**flags: Any) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


@app.command()
def log(
    config: _Config = None,
    data: _Data = None,
    host: _Host = None,
    port: _Port = None,
    http_port: _HttpPort = None,
    certs: _Certs = None,
    insecure: _Insecure = None,
    traces: _Traces = None,
    log_level: _LogLevel = None,
    log_format: _LogFormat = None,
    json: Json = False,
) -> None:
    """Run the log: the one place where written data must not be lost.

    \b
      duramen serve log --config /etc/duramen/log.toml
      duramen serve log --data /var/lib/duramen/log --port 7071
    """
    from duramen.server.roles.log_role import LogRole
    from duramen.server.settings.exposure import check_exposure
    from duramen.server.settings.loading import load_settings
    from duramen.server.settings.models import LogSettings
    from duramen.server.wiring.server_certificates import ServerCertificates

    where = _given(data=data, host=host, port=port, http_port=http_port, certs=certs, insecure=insecure)
    logs = _given(traces=traces, log_level=log_level, log_format=log_format)
    settings = load_settings(LogSettings, config, {**where, **logs})
    end_traces = _begin(settings.log_level, settings.log_format, settings.traces, "log")
    check_exposure(settings.host, certs=settings.certs, insecure=settings.insecure)
    certificates = ServerCertificates.of_process(settings.certs)
    announce = RoleAnnouncer("log", "log", settings.host, json, data=str(settings.data.absolute()))
    opening = LogRole.open(
        settings.data,
        host=settings.host,
        port=settings.port,
        certificates=certificates,
        streams_max=settings.streams_max,
        slow_call_ms=settings.slow_call_ms,
    )
    _run(opening, settings.http_port, certificates, announce, end_traces, history=False)


@app.command()
def node(
    config: _Config = None,
    node_id: Annotated[str | None, typer.Option("--id", help="The node's name in the catalog.")] = None,
    data: _Data = None,
    log: _Log = None,
    host: _Host = None,
    port: _Port = None,
    advertise: Annotated[
        str | None, typer.Option("--advertise", metavar="HOST:PORT", help="Where others reach this node.")
    ] = None,
    advertise_host: Annotated[
        str | None, typer.Option("--advertise-host", metavar="HOST", help="The same with the port that it listens on.")
    ] = None,
    snapshots: Annotated[str | None, typer.Option("--snapshots", metavar="URL", help="The snapshot store.")] = None,
    snapshot_every_s: Annotated[
        float | None,
        typer.Option("--snapshot-every-s", metavar="SECONDS", help="Between two snapshots; 0: only on demand."),
    ] = None,
    allow_location: _Allowed = None,
    take_over: Annotated[
        bool | None,
        typer.Option("--take-over/--no-take-over", help="Take the id over from a data folder that is lost."),
    ] = None,
    http_port: _HttpPort = None,
    resp_port: _RespPort = None,
    resp_socket: _RespSocket = None,
    certs: _Certs = None,
    peer_port: _PeerPort = None,
    insecure: _Insecure = None,
    traces: _Traces = None,
    log_level: _LogLevel = None,
    log_format: _LogFormat = None,
    json: Json = False,
) -> None:
    """Run a serving node: it hosts the replicas that the catalog gives it.

    \b
      duramen serve node --config /etc/duramen/node.toml
      duramen serve node --id n2 --data /var/lib/duramen/n2 --log grpc://log:7071 --port 7073
    """
    from duramen.server.roles.node_role import NodeRole
    from duramen.server.settings.exposure import check_exposure, checked_peer_port
    from duramen.server.settings.loading import load_settings
    from duramen.server.settings.models import NodeSettings
    from duramen.server.settings.resp import resp_settings
    from duramen.server.wiring.server_certificates import ServerCertificates
    from duramen.server.wiring.serving_node import SnapshotPolicy
    from log_tier.audit.audit_settings import AuditSettings

    flags = _given(
        id=node_id,
        data=data,
        log=log,
        host=host,
        port=port,
        advertise=advertise,
        snapshots=snapshots,
        snapshot_every_s=snapshot_every_s,
        allowed_locations=allow_location or None,
        take_over=take_over,
        http_port=http_port,
        resp_port=resp_port,
        resp_socket=resp_socket,
        certs=certs,
        peer_port=peer_port,
        insecure=insecure,
        traces=traces,
        log_level=log_level,
        log_format=log_format,
    )
    settings = load_settings(NodeSettings, config, flags)
    end_traces = _begin(settings.log_level, settings.log_format, settings.traces, "node")
    check_exposure(settings.host, certs=settings.certs, insecure=settings.insecure)
    certificates = ServerCertificates.of_process(settings.certs)
    announce = RoleAnnouncer("node", settings.id, settings.host, json, data=str(settings.data.absolute()))
    opening = NodeRole.open(
        settings.data,
        node_id=settings.id,
        log_url=settings.log,
        host=settings.host,
        port=settings.port,
        advertise=settings.advertise or (f"{advertise_host}:0" if advertise_host else ""),
        snapshots=SnapshotPolicy(settings.snapshots, settings.snapshot_every_s, settings.snapshots_keep),
        allow_locations=settings.allowed_locations,
        take_over=settings.take_over,
        resp_endpoint=resp_settings(settings, None if certificates is None else certificates.files),
        certificates=certificates,
        peer_port=checked_peer_port(settings.peer_port, secured=settings.certs != ""),
        users=_users(settings),
        audit=AuditSettings.parse(settings.audit_tables, days=settings.audit_days),
        streams_max=settings.streams_max,
        slow_call_ms=settings.slow_call_ms,
    )
    _run(opening, settings.http_port, certificates, announce, end_traces, history=settings.history)


@app.command()
def router(
    config: _Config = None,
    log: _Log = None,
    host: _Host = None,
    port: _Port = None,
    allow_location: _Allowed = None,
    http_port: _HttpPort = None,
    resp_port: _RespPort = None,
    resp_socket: _RespSocket = None,
    certs: _Certs = None,
    peer_port: _PeerPort = None,
    insecure: _Insecure = None,
    heal_after: _HealAfter = None,
    relieve_after: _RelieveAfter = None,
    traces: _Traces = None,
    log_level: _LogLevel = None,
    log_format: _LogFormat = None,
    json: Json = False,
) -> None:
    """Run a router: it has no state, and there may be any number.

    \b
      duramen serve router --config /etc/duramen/router.toml
      duramen serve router --log grpc://log:7071 --port 7070
    """
    from duramen.server.roles.router_role import RouterRole
    from duramen.server.settings.exposure import check_exposure, checked_peer_port
    from duramen.server.settings.loading import load_settings
    from duramen.server.settings.models import RouterSettings
    from duramen.server.settings.resp import resp_settings
    from duramen.server.wiring.server_certificates import ServerCertificates
    from log_tier.audit.audit_settings import AuditSettings

    flags = _given(
        log=log,
        host=host,
        port=port,
        allowed_locations=allow_location or None,
        http_port=http_port,
        resp_port=resp_port,
        resp_socket=resp_socket,
        certs=certs,
        peer_port=peer_port,
        insecure=insecure,
        heal_after_s=heal_after,
        relieve_after_s=relieve_after,
        traces=traces,
        log_level=log_level,
        log_format=log_format,
    )
    settings = load_settings(RouterSettings, config, flags)
    if has_secret(settings.client_log):
        raise InvalidRequest(
            f"client_log, {mask_url(settings.client_log)}, holds a secret, and every client can read it: give the "
            "secret to Spark's driver and executors by their environment"
        )
    end_traces = _begin(settings.log_level, settings.log_format, settings.traces, "router")
    check_exposure(settings.host, certs=settings.certs, insecure=settings.insecure)
    certificates = ServerCertificates.of_process(settings.certs)
    announce = RoleAnnouncer("router", "router", settings.host, json)
    opening = RouterRole.open(
        log_url=settings.log,
        host=settings.host,
        port=settings.port,
        client_log_url=None if settings.client_log == "same" else settings.client_log,
        allow_locations=settings.allowed_locations,
        resp_endpoint=resp_settings(settings, None if certificates is None else certificates.files),
        certificates=certificates,
        peer_port=checked_peer_port(settings.peer_port, secured=settings.certs != ""),
        users=_users(settings),
        audit=AuditSettings.parse(settings.audit_tables, days=settings.audit_days),
        streams_max=settings.streams_max,
        slow_call_ms=settings.slow_call_ms,
        heal=settings.heal,
        relieve=settings.relieve,
    )
    _run(opening, settings.http_port, certificates, announce, end_traces, history=settings.history)


def _users(settings: Any) -> Any:
    """The `UserPolicy` of a role's settings, or of the process that started this one."""
    from duramen.server.settings.exposure import needs_users
    from duramen.server.wiring.first_user import FirstUser, UserPolicy, handed_first_user

    name, token_file = settings.first_user, settings.first_user_token_file
    if bool(name) is not bool(token_file):
        raise InvalidRequest("the settings first_user and first_user_token_file go together: give both, or none")
    first = FirstUser(name, Path(token_file)) if name else handed_first_user()
    return UserPolicy(first, are_needed=needs_users(settings.host, insecure=settings.insecure))


def _begin(level: str, form: str, traces: str, role: str) -> Callable[[], None]:
    """Set up the process of a role; what sends its last spans."""
    from duramen.server.roles.run import check_assertions
    from duramen.tracing.asked_for import begin_traces

    check_assertions()
    end_with_parent()
    set_up_logging(level, form)
    warn_of_secret_arguments(sys.argv)
    return begin_traces(traces, role)


def _run(
    opening: Awaitable[Any],
    http_port: Any,
    certificates: Any,
    announce: RoleAnnouncer,
    end_traces: Callable[[], None],
    *,
    history: bool,
) -> None:
    """Run the role that is `opening`, with its HTTP port and what that keeps, until a signal."""
    from duramen.server.roles.http_port import http_port_of, opened_with_http
    from duramen.server.roles.run import run_role, run_until_signal

    serving = opened_with_http(opening, http_port_of(http_port), certificates, history=history)
    run_role(run_until_signal(serving, started=announce.started, stopping=announce.stopping))
    end_traces()
    announce.stopped()
