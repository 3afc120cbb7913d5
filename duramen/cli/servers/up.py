"""`duramen up`: the whole database in one process."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from duramen.cli.servers.secret_arguments import warn_of_secret_arguments
from duramen.cli.terminal.options import Json
from duramen.cli.terminal.output import say, say_end, say_json
from duramen.server.log_lines.setup import LogFormat, set_up_logging
from log_tier.audit.audit_settings import AuditSettings
from log_tier.model.errors import InvalidRequest

__all__ = ["up"]


class _TracesTo(StrEnum):
    NOWHERE = "none"
    OTLP = "otlp"


class _LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def up(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="The data folder; made where it is missing.")
    ] = Path("duramen-data"),
    host: Annotated[str, typer.Option("--host", help="The address to listen on; 0.0.0.0 is every one.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port; 0 picks a free one and prints it.")] = 7070,
    log: Annotated[
        str | None, typer.Option("--log", metavar="URL", help="Where the log is, if not in DIR: kafka://host:port.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", metavar="N", help="Run log, N serving nodes and a router as processes of their own."),
    ] = None,
    snapshot_every_s: Annotated[
        float, typer.Option("--snapshot-every-s", metavar="SECONDS", help="Between two snapshots; 0: only on demand.")
    ] = 0.0,
    allow_location: Annotated[
        list[str] | None,
        typer.Option("--allow-location", metavar="URL", help="A folder or bucket that callers may name; repeatable."),
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="With --log: the data folder that was used before is lost for good.")
    ] = False,
    resp_port: Annotated[
        int | None,
        typer.Option("--resp-port", help="The port of the Redis protocol; 0 picks a free one and prints it."),
    ] = None,
    resp_socket: Annotated[
        Path | None, typer.Option("--resp-socket", metavar="PATH", help="The Redis protocol on a Unix socket.")
    ] = None,
    resp_password: Annotated[
        str,
        typer.Option(
            "--resp-password", envvar="DURAMEN_RESP_PASSWORD", help="The password that Redis clients give with AUTH."
        ),
    ] = "",
    resp_readers: Annotated[
        int,
        typer.Option(
            "--resp-readers",
            metavar="N",
            help="Additional processes that share the RESP port and answer reads.",
            min=0,
            max=64,
        ),
    ] = 0,
    resp_cache_mebibytes: Annotated[
        int,
        typer.Option("--resp-cache-mebibytes", metavar="N", help="Memory for recently read values; 0: none.", min=0),
    ] = 512,
    resp_clients_mebibytes: Annotated[
        int,
        typer.Option(
            "--resp-clients-mebibytes",
            metavar="N",
            help="Memory for commands that wait and replies that nobody reads, of all Redis clients together.",
            min=1,
        ),
    ] = 1024,
    http_port: Annotated[
        int | None,
        typer.Option(
            "--http-port",
            help="HTTP: /livez, /readyz, /status and /metrics for Prometheus, at the address of --host; 0 picks a free "
            "port and prints it, -1: none. With --nodes that of the router; nodes have one each, which is printed. "
            "Without this: 8080, or a free one where that is taken, for this machine alone.",
            min=-1,
            max=65535,
        ),
    ] = None,
    history: Annotated[
        bool,
        typer.Option(
            "--history/--no-history",
            help="Keep what /history shows in the table _duramen_history as well, so that it outlives a restart.",
        ),
    ] = True,
    certs: Annotated[
        Path | None,
        typer.Option(
            "--certs",
            metavar="DIR",
            help="TLS: a folder with ca.crt and the server's certificate and key, as `duramen cert` makes it.",
        ),
    ] = None,
    peer_port: Annotated[
        int,
        typer.Option(
            "--peer-port",
            min=-1,
            max=65535,
            help="With --certs: a port where each client shows a certificate; 0 picks a free one, -1: none.",
        ),
    ] = -1,
    first_user: Annotated[
        str | None,
        typer.Option("--first-user", metavar="NAME", help="Where there is no user yet: make this one, who may do all."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="With --first-user: a new file for its token.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen without TLS and users where other machines reach it.")
    ] = False,
    audit_table: Annotated[
        list[str] | None,
        typer.Option(
            "--audit-table", metavar="TABLE:RIGHTS", help="Audit reads or writes too: orders:read,write; repeatable."
        ),
    ] = None,
    audit_days: Annotated[
        float, typer.Option("--audit-days", metavar="DAYS", help="How long rows of the audit stay.")
    ] = 90.0,
    streams_max: Annotated[
        int, typer.Option("--streams-max", metavar="N", help="How many streams of gRPC may be open at once.", min=2)
    ] = 8192,
    slow_call_ms: Annotated[
        int,
        typer.Option(
            "--slow-call-ms", metavar="MS", help="From which duration on the slow log has a call; 0: none.", min=0
        ),
    ] = 100,
    heal_after: Annotated[
        float,
        typer.Option(
            "--heal-after",
            metavar="SECONDS",
            help="With --nodes: place the replicas of a node that is lost for so long at others; 0: never.",
            min=0,
        ),
    ] = 600.0,
    relieve_after: Annotated[
        float,
        typer.Option(
            "--relieve-after",
            metavar="SECONDS",
            help="With --nodes: move replicas away from nodes that are full, slow or hot for so long; 0: never.",
            min=0,
        ),
    ] = 600.0,
    traces: Annotated[
        _TracesTo,
        typer.Option(
            "--traces",
            help="otlp: send spans of calls to a collector, as OpenTelemetry's environment variables say; needs the "
            "extra `otel`.",
        ),
    ] = _TracesTo.NOWHERE,
    log_level: Annotated[
        _LogLevel, typer.Option("--log-level", help="What the server logs on the standard error.")
    ] = _LogLevel.WARNING,
    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How each line looks: for people, or an object for programs.")
    ] = LogFormat.PLAIN,
    json: Json = False,
) -> None:
    """Start a server: log, indexes and endpoints in one process, on one port; or, with --nodes, a cluster.

    It runs until Ctrl-C or SIGTERM and then closes cleanly; `kill -9` loses nothing that was acknowledged. One process
    owns a data folder at a time. An address that other machines reach needs --certs and users, or --insecure in a
    network that you trust.

    --first-user makes the first user, before anybody is answered, and writes its token into --token-file, which only
    you can read. From then on everybody proves who calls. Where there are users, it does nothing.

    \b
      duramen up
      duramen up --certs certs --first-user admin --token-file admin.token
      duramen up --data /var/lib/duramen --host 0.0.0.0 --certs certs
      duramen up --port 0 --json          # one JSON line with the port, when it is ready
      duramen up --nodes 3                # five processes; one that dies is started again
      duramen up --http-port 9080         # and curl localhost:9080/readyz
      duramen up --resp-port 6379         # and redis-cli, or any client of Redis
      duramen up --certs certs            # TLS: clients call it with duramens://
      duramen up --log kafka://broker1:9092,broker2:9092
    """
    _check_ports(port, resp_port or 0)
    _check_options(first_user, token_file, nodes, resp_socket, own=take_over and log is None)
    audit = AuditSettings.parse(audit_table or (), days=audit_days)
    peers = _begin(host, certs, insecure, peer_port, log_level, log_format)
    shared: dict[str, Any] = {"host": host, "port": port, "log_url": log, "take_over": take_over}
    shared |= {"streams_max": streams_max, "slow_call_ms": slow_call_ms}
    if nodes is not None:
        from duramen.server.roles.run import run_role
        from duramen.server.supervisor.cluster import ClusterOptions, supervise

        options = ClusterOptions(
            nodes=nodes,
            log_level=log_level.value,
            log_format=log_format.value,
            traces=traces.value,
            snapshot_every_s=snapshot_every_s,
            allow_locations=tuple(allow_location or ()),
            http_port=http_port,
            history=history,
            resp_port=resp_port,
            resp_password=resp_password,
            resp_cache_mebibytes=resp_cache_mebibytes,
            resp_clients_mebibytes=resp_clients_mebibytes,
            resp_readers=resp_readers,
            certs=certs,
            insecure=insecure,
            peer_port=peers,
            audit_tables=tuple(audit_table or ()),
            audit_days=audit_days,
            heal_after_s=heal_after,
            relieve_after_s=relieve_after,
            first_user=_users(first_user, token_file, host, insecure=insecure).first,
            **shared,
        )
        run_role(supervise(data, options, _tell_json if json else _tell_people))
        return
    from duramen.cli.servers.announcer import Announcer
    from duramen.server.roles.all_in_one import SingleServer
    from duramen.server.wiring.server_certificates import ServerCertificates
    from duramen.server.wiring.serving_node import SnapshotPolicy
    from router.endpoints.resp.server.sockets import RespSettings

    where = (host, resp_port, resp_socket, resp_password)
    memory: dict[str, Any] = {"cache_mebibytes": resp_cache_mebibytes, "clients_mebibytes": resp_clients_mebibytes}
    opening = SingleServer.open(
        data,
        snapshots=SnapshotPolicy(every_s=snapshot_every_s),
        allow_locations=allow_location or (),
        resp_endpoint=RespSettings(*where, for_this_machine=True, readers=resp_readers, **memory),
        certificates=ServerCertificates.of_process(certs),
        peer_port=peers,
        users=_users(first_user, token_file, host, insecure=insecure),
        audit=audit,
        **shared,
    )
    _run(opening, Announcer(data, log, host, json, certs), http_port, certs, traces.value, history=history)


def _run(opening: Any, announce: Any, http_port: int | None, certs: Path | None, traces: str, *, history: bool) -> None:
    """Run the server until a signal. `http_port`, `history`: see `ServesHttp`; -1: none. `traces`: where spans go."""
    from duramen.server.roles.http_port import opened_with_http
    from duramen.server.roles.run import run_role, run_until_signal
    from duramen.server.wiring.server_certificates import ServerCertificates
    from duramen.tracing.asked_for import begin_traces

    try:
        end_traces = begin_traces(traces, "single")
    except InvalidRequest:
        opening.close()
        raise
    serving = opened_with_http(
        opening, http_port, None if certs is None else ServerCertificates.open(certs), history=history
    )
    run_role(run_until_signal(serving, started=announce.started, stopping=announce.stopping))
    end_traces()
    announce.stopped()


def _begin(
    host: str, certs: Path | None, insecure: bool, peer_port: int, level: _LogLevel, form: LogFormat
) -> int | None:
    """Set up the process of a server; its port for peers, None if it has none."""
    from duramen.server.roles.run import check_assertions
    from duramen.server.settings.exposure import check_exposure, checked_peer_port
    from duramen.server.supervisor.parent import end_with_parent

    set_up_logging(level.value, form)
    warn_of_secret_arguments(sys.argv)
    check_exposure(host, certs=certs, insecure=insecure)
    check_assertions()
    end_with_parent()
    return checked_peer_port(peer_port, secured=certs is not None)


def _check_options(
    name: str | None,
    token_file: Path | None,
    nodes: int | None,
    socket: Path | None,
    *,
    own: bool,
) -> None:
    if nodes is not None and socket is not None:
        raise InvalidRequest("--resp-socket goes without --nodes: each process would need one of its own")
    if own:
        raise InvalidRequest("--take-over goes with --log: without it the log itself is in the data folder")
    if (name is None) is not (token_file is None):
        raise InvalidRequest("--first-user NAME and --token-file FILE go together: give both, or none")


def _users(name: str | None, token_file: Path | None, host: str, *, insecure: bool) -> Any:
    """The `UserPolicy` of the options."""
    from duramen.server.settings.exposure import needs_users
    from duramen.server.wiring.first_user import FirstUser, UserPolicy

    first = None if name is None or token_file is None else FirstUser(name, token_file)
    return UserPolicy(first, are_needed=needs_users(host, insecure=insecure))


def _check_ports(*ports: int) -> None:
    for port in ports:
        if not 0 <= port < 65536:
            raise InvalidRequest(f"a port is 0 to 65535, not {port}")


def _tell_json(event: dict[str, Any]) -> None:
    say_json(event, flush=True)


def _tell_people(event: dict[str, Any]) -> None:
    kind = event["event"]
    if kind == "child":
        http = f" http {event['http_port']}" if event.get("http_port") else ""
        say(f"  {event['name']:<8} {event['role']:<7} port {event['port']:<6} pid {event['pid']}{http}")
    elif kind == "exited":
        say(f"  {event['name']} (pid {event['pid']}) ended with {event['code']}: it is started again")
    elif kind == "failed":
        say(f"  {event['name']} cannot be started, and is tried again: {event['error']}")
    elif kind == "started":
        at = f"localhost:{event['port']}"
        say(f"Duramen is up on {event['host']}:{event['port']}")
        say(f"  data      {event['data']}")
        if "certs" in event:
            say(f"  connect   any command with --at duramens://{at} --ca {Path(event['certs']) / 'ca.crt'}")
        else:
            say(f'  connect   duramen.connect("{at}"), or any command with --at {at}')
        if first := event.get("first_user"):
            say(f"  users     {'the first one was made' if first == 'made' else '--first-user did nothing'}")
        if event.get("http_port"):
            scheme = "https" if "certs" in event else "http"
            say(f"  console   {scheme}://localhost:{event['http_port']}/, and /status, /metrics, /readyz, /livez")
        if event.get("resp_port"):
            tls = f"--tls --cacert {Path(event['certs']) / 'ca.crt'} " if "certs" in event else ""
            say(f"  redis     redis-cli {tls}-p {event['resp_port']}, or any client of Redis")
        say("  stop      Ctrl-C, or SIGTERM")
    else:
        say_end(event, as_json=False)
    sys.stdout.flush()
