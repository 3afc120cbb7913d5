"""The keys of each role. A field's description is the comment that `deploy/*.toml` gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from log_tier.audit.audit_settings import AUDIT_DAYS
from log_tier.rpc.messages.stream_bound import LOG_STREAMS_MAX, STREAMS_MAX
from log_tier.slow_calls.slow_call_log import SLOW_CALL_MS
from router.admin.planners.heal import HealBounds
from router.admin.relief.decision import ReliefBounds
from router.endpoints.resp.wire.limits import CLIENTS_MEBIBYTES

__all__ = ["ROLES", "LogSettings", "NodeSettings", "RouterSettings"]

Port = Annotated[int, Field(ge=0, le=65535)]
OptionalPort = Annotated[int, Field(ge=-1, le=65535)]
HttpPort = OptionalPort | Literal["auto"]
LogLevel = Literal["debug", "info", "warning", "error"]
TracesTo = Literal["none", "otlp"]
LogFormatName = Literal["plain", "json"]

_HOST: Final = (
    "The address to listen on. Any other than 127.0.0.1 needs `certs` and a user in the catalog, or `insecure`."
)
_HOST_LOG: Final = "The address to listen on. Any other than 127.0.0.1 needs `certs` or `insecure`."
_CERTS: Final = (
    "TLS: the folder with ca.crt and this server's certificate and key, as `duramen cert` makes it. All servers of a "
    "cluster have it, or none; empty: plain TCP."
)
_PEER_PORT: Final = (
    "With `certs`: a port where each client shows a certificate of the same CA: other servers, and users who prove "
    "themselves by one. 0 picks a free port and reports it, -1: none."
)
_INSECURE: Final = (
    "Listen on an address that other machines reach without TLS, or without users: everybody there reads and writes "
    "everything."
)
_INSECURE_LOG: Final = (
    "Listen on an address that other machines reach without TLS: everybody there reads and writes everything."
)
_FIRST_USER: Final = (
    "The first user, who may do everything, made where the catalog has none, before this server answers; needs `certs`."
)
_FIRST_USER_TOKEN_FILE: Final = "A new file for that user's token, which only this user of the machine can read."
_HTTP_PORT: Final = (
    "The port of health, status and metrics over HTTP: /livez, /readyz, /status, /metrics, at the address of `host`; 0 "
    "picks a free port and reports it, -1: none; auto: 8080, or a free port where that is taken, for this machine "
    "alone."
)
_HISTORY: Final = (
    "Keep the history of the HTTP port in the table `_duramen_history` too, so that it outlives a restart: a row each "
    "minute, for a week. The servers of a cluster have the same."
)
_RESP_PORT: Final = "The port of the RESP endpoint, the Redis protocol; 0 picks a free port and reports it, -1: none."
_RESP_SOCKET: Final = "A Unix socket on which the RESP endpoint is, too; empty: none."
_RESP_PASSWORD: Final = "What clients of the RESP endpoint must give with AUTH; empty: everybody may come in."
_RESP_CERTIFICATE: Final = (
    "A certificate with its chain, PEM: the RESP endpoint then speaks TLS on its port; empty: that of `certs`."
)
_RESP_KEY: Final = "The certificate's key, PEM."
_RESP_CLIENTS: Final = (
    "Memory for what all connections of the RESP endpoint hold together: commands that wait, and replies that nobody "
    "reads. Beyond it those that hold most are ended."
)
_ALLOWED: Final = (
    "Folders and buckets that callers may have this server open, with what lies below them: /bulk, s3://bucket/prefix, "
    "s3://*?endpoint_url=http://minio:9000. A server on loopback opens all folders, others their snapshot store."
)
_AUDIT_TABLES: Final = (
    "Tables whose reads or writes are audited as well, once there are users: orders:read,write, ships*:write."
)
_AUDIT_DAYS: Final = "How many days rows of the audit stay. The servers of a cluster have the same."
_STREAMS: Final = (
    "How many streams of gRPC may be open at once: watches, maps, status, reads of logs. One connection has half at "
    "most. Each costs some 12 KiB; what is over is refused."
)
_SLOW: Final = (
    "Milliseconds from which on a call is slow: the last ones are kept with where their time went, and logged at level "
    "info; 0: none is."
)
_SLOW_LOG: Final = "Milliseconds from which on a call is slow: it is logged at level info, with its parts; 0: none is."
_TRACES: Final = (
    "Where spans of calls go: otlp, to a collector by OTLP over HTTP, as OpenTelemetry's environment variables say "
    "(OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_TRACES_SAMPLER, ...); none: nowhere. It needs the extra `otel`."
)
_LOG_LEVEL: Final = "What the server logs on the standard error: debug, info, warning, error."
_LOG_FORMAT: Final = "How each line looks: plain, for people; json, an object with the place of its message as fields."


class LogSettings(BaseSettings):
    """`duramen serve log`."""

    model_config = SettingsConfigDict(env_prefix="DURAMEN_LOG_", extra="forbid", defer_build=True)

    data: Path = Field(Path("duramen-log"), description="The folder of the log: what must not be lost.")
    host: str = Field("127.0.0.1", description=_HOST_LOG)
    port: Port = Field(7071, description="The port; 0 picks a free port and reports it.")
    http_port: HttpPort = Field("auto", description=_HTTP_PORT)
    certs: str = Field("", description=_CERTS)
    insecure: bool = Field(False, description=_INSECURE_LOG)
    streams_max: int = Field(LOG_STREAMS_MAX, ge=2, description=_STREAMS)
    slow_call_ms: int = Field(SLOW_CALL_MS, ge=0, description=_SLOW_LOG)
    traces: TracesTo = Field("none", description=_TRACES)
    log_level: LogLevel = Field("warning", description=_LOG_LEVEL)
    log_format: LogFormatName = Field("plain", description=_LOG_FORMAT)


class NodeSettings(BaseSettings):
    """`duramen serve node`."""

    model_config = SettingsConfigDict(env_prefix="DURAMEN_NODE_", extra="forbid", defer_build=True)

    id: str = Field("n1", description="The node's name in the catalog; each node has its own, for ever.")
    data: Path = Field(Path("duramen-node"), description="The folder of its indexes: a cache, it may be lost.")
    log: str = Field(
        "grpc://127.0.0.1:7071",
        description="Where the log is: grpc://host:port, or kafka://host:port,host:port/namespace.",
        repr=False,
    )
    host: str = Field("127.0.0.1", description=_HOST)
    port: Port = Field(7072, description="The port; 0 picks a free port and reports it.")
    advertise: str = Field(
        "", description="host:port at which routers, clients and other nodes reach it; empty: host and port."
    )
    snapshots: str = Field(
        "",
        description="URL of the snapshot store, the same for all nodes: file:///mnt/shared, s3://bucket/prefix; empty: "
        "a folder of this node's own, which does not help where its disk is lost.",
        repr=False,
    )
    snapshot_every_s: float = Field(
        3600.0,
        ge=0,
        description="Seconds between two snapshots of a partition that changed; 0: only on demand. A restore replays "
        "at most what was written since.",
    )
    snapshots_keep: int = Field(
        2,
        ge=1,
        description="Snapshots of each partition that stay. Two: one may turn out bad on the night it is needed.",
    )
    allowed_locations: list[str] = Field([], description=_ALLOWED)
    take_over: bool = Field(
        False,
        description="Become the node of this id although another data folder has it. For a disk that is lost for good.",
    )
    http_port: HttpPort = Field("auto", description=_HTTP_PORT)
    history: bool = Field(True, description=_HISTORY)
    resp_port: OptionalPort = Field(-1, description=_RESP_PORT)
    resp_socket: str = Field("", description=_RESP_SOCKET)
    resp_password: str = Field("", description=_RESP_PASSWORD, repr=False)
    resp_tls_certificate: str = Field("", description=_RESP_CERTIFICATE)
    resp_tls_key: str = Field("", description=_RESP_KEY)
    resp_clients_mebibytes: int = Field(CLIENTS_MEBIBYTES, ge=1, description=_RESP_CLIENTS)
    resp_readers: int = Field(
        0,
        ge=0,
        le=64,
        description="Processes that take the connections of resp_port and read the indexes by themselves, for machines "
        "with processors to spare; 0: the node does it.",
    )
    resp_cache_mebibytes: int = Field(
        512,
        ge=0,
        description="Memory for values that clients of the Redis protocol read lately, taken as it is needed; 0: none. "
        "Without it they are read from the index, which takes about a microsecond each.",
    )
    audit_tables: list[str] = Field([], description=_AUDIT_TABLES)
    audit_days: float = Field(AUDIT_DAYS, gt=0, description=_AUDIT_DAYS)
    certs: str = Field("", description=_CERTS)
    peer_port: OptionalPort = Field(0, description=_PEER_PORT)
    first_user: str = Field("", description=_FIRST_USER)
    first_user_token_file: str = Field("", description=_FIRST_USER_TOKEN_FILE)
    insecure: bool = Field(False, description=_INSECURE)
    streams_max: int = Field(STREAMS_MAX, ge=2, description=_STREAMS)
    slow_call_ms: int = Field(SLOW_CALL_MS, ge=0, description=_SLOW)
    traces: TracesTo = Field("none", description=_TRACES)
    log_level: LogLevel = Field("warning", description=_LOG_LEVEL)
    log_format: LogFormatName = Field("plain", description=_LOG_FORMAT)


class RouterSettings(BaseSettings):
    """`duramen serve router`."""

    model_config = SettingsConfigDict(env_prefix="DURAMEN_ROUTER_", extra="forbid", defer_build=True)

    log: str = Field(
        "grpc://127.0.0.1:7071",
        description="Where the log is: grpc://host:port, or kafka://host:port,host:port/namespace.",
        repr=False,
    )
    host: str = Field("127.0.0.1", description=_HOST)
    port: Port = Field(7070, description="The port; 0 picks a free port and reports it.")
    allowed_locations: list[str] = Field([], description=_ALLOWED)
    client_log: str = Field(
        "same",
        description='Where clients reach the log: grpc://host:port, "same" as `log`, or empty: they write through '
        "routers, as they do with Kafka. A kafka:// URL is given to every client that asks for it, and is for Spark.",
        repr=False,
    )
    http_port: HttpPort = Field("auto", description=_HTTP_PORT)
    history: bool = Field(True, description=_HISTORY)
    resp_port: OptionalPort = Field(-1, description=_RESP_PORT)
    resp_socket: str = Field("", description=_RESP_SOCKET)
    resp_password: str = Field("", description=_RESP_PASSWORD, repr=False)
    resp_tls_certificate: str = Field("", description=_RESP_CERTIFICATE)
    resp_tls_key: str = Field("", description=_RESP_KEY)
    resp_clients_mebibytes: int = Field(CLIENTS_MEBIBYTES, ge=1, description=_RESP_CLIENTS)
    heal_after_s: float = Field(
        HealBounds().after_s,
        ge=0,
        description="Seconds for which a node is lost before its replicas are placed at other nodes; 0: never. The "
        "routers of a cluster have the same.",
    )
    heal_copies: int = Field(
        HealBounds().copies,
        ge=1,
        description="How many replicas a healing copies at once, in the whole cluster; a relief no more than 8.",
    )
    heal_mebibytes_s: int = Field(
        HealBounds().bytes_s >> 20,
        ge=0,
        description="MiB a second that healings and reliefs copy, on average from one job to the next; 0: as fast as "
        "nodes copy.",
    )
    relieve_after_s: float = Field(
        ReliefBounds().after_s,
        ge=0,
        description="Seconds for which a node is full, slow or hot before replicas of it go elsewhere; 0: never. The "
        "routers of a cluster have the same.",
    )
    audit_tables: list[str] = Field([], description=_AUDIT_TABLES)
    audit_days: float = Field(AUDIT_DAYS, gt=0, description=_AUDIT_DAYS)
    certs: str = Field("", description=_CERTS)
    peer_port: OptionalPort = Field(-1, description=_PEER_PORT)
    first_user: str = Field("", description=_FIRST_USER)
    first_user_token_file: str = Field("", description=_FIRST_USER_TOKEN_FILE)
    insecure: bool = Field(False, description=_INSECURE)
    streams_max: int = Field(STREAMS_MAX, ge=2, description=_STREAMS)
    slow_call_ms: int = Field(SLOW_CALL_MS, ge=0, description=_SLOW)
    traces: TracesTo = Field("none", description=_TRACES)
    log_level: LogLevel = Field("warning", description=_LOG_LEVEL)
    log_format: LogFormatName = Field("plain", description=_LOG_FORMAT)

    @property
    def heal(self) -> HealBounds:
        """What it does by itself about lost nodes."""
        return HealBounds(self.heal_after_s, self.heal_copies, self.heal_mebibytes_s << 20)

    @property
    def relieve(self) -> ReliefBounds:
        """What it does by itself about nodes that have too much."""
        return ReliefBounds(self.relieve_after_s, self.heal_copies, self.heal_mebibytes_s << 20)


ROLES: Final[dict[str, type[BaseSettings]]] = {"log": LogSettings, "node": NodeSettings, "router": RouterSettings}
"""The settings by role."""
