"""What the endpoint listens on: taken before anything is opened, so that a second server on a port harms nothing."""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path

from log_tier.model.errors import InvalidRequest, PortInUse
from log_tier.privacy.machine_socket import MachineSocket, bind_machine_socket, machine_socket_of
from log_tier.privacy.private_files import FILE_MODE
from router.endpoints.resp.bounds.tls_handshakes import HANDSHAKE_S
from router.endpoints.resp.wire.limits import CLIENTS_MEBIBYTES, LISTEN_BACKLOG, OUTPUT_STALL_S

__all__ = ["RespSettings", "RespSockets", "tls_context"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RespSettings:
    """Where the endpoint is, and who may come in."""

    host: str = "127.0.0.1"
    port: int | None = None
    """None: not on TCP; 0: a free one."""
    socket_path: Path | None = None
    """A Unix socket."""
    password: str = field(default="", repr=False)
    """The password that AUTH must give; empty: no password is needed."""
    tls_certificate: Path | None = None
    """PEM, its chain included; with `tls_key`. None: no TLS."""
    tls_key: Path | None = None
    cache_mebibytes: int = 512
    """Memory for values that were read lately, allocated as they come; 0: none are kept."""
    readers: int = 0
    """Processes that take the connections of the port and read by themselves; 0: this one does all."""
    stall_s: float = OUTPUT_STALL_S
    """So long a client that does not read its replies may neither take nor send a byte."""
    clients_mebibytes: int = CLIENTS_MEBIBYTES
    """What all connections together may hold of commands that wait and replies that are not read."""
    handshake_s: float = HANDSHAKE_S
    """Within so long a client has to complete its TLS handshake."""
    table_partitions: int = 0
    """Of tables that are made at first use; 0: one on one machine, eight in a cluster."""
    for_this_machine: bool = False
    """Duramen's own clients on this machine get a socket (`RespSockets.take_machine_socket`)."""

    @property
    def wanted(self) -> bool:
        """Is there an endpoint at all?"""
        return self.port is not None or self.socket_path is not None or self.for_this_machine

    def with_certificate(self, pair: tuple[Path, Path] | None) -> RespSettings:
        """The same endpoint, with the server's certificate and key, `pair`, if it has none of its own."""
        if pair is None or self.tls_certificate is not None or self.tls_key is not None:
            return self
        return replace(self, tls_certificate=pair[0], tls_key=pair[1])


@dataclass(slots=True)
class RespSockets:
    """Bound sockets that nobody listens on yet. `close` gives back those that were not used."""

    tcp: socket.socket | None = None
    shared: list[socket.socket] = field(default_factory=list)
    """The listening sockets of reader processes, one each, all on one port."""
    unix: list[socket.socket] = field(default_factory=list)
    path: Path | None = None
    machine: MachineSocket | None = None
    """Where clients on this machine find it; None: nowhere."""
    _for_this_machine: bool = False

    @classmethod
    def take(cls, settings: RespSettings) -> RespSockets:
        """Bind. Raises `PortInUse`, and `InvalidRequest` for TLS files that cannot be used."""
        if settings.tls_certificate is not None or settings.tls_key is not None:
            tls_context(settings)
        if settings.readers and settings.port is None:
            raise InvalidRequest("reader processes share a port: give --resp-port with --resp-readers")
        taken = cls(_for_this_machine=settings.for_this_machine)
        try:
            if settings.port is not None:
                taken.tcp = _bound(settings.host, settings.port)
                if settings.readers:
                    # Bound alone first: several servers that share by mistake would each get some of the clients.
                    port = taken.port
                    taken.tcp.close()
                    taken.tcp = None
                    for _ in range(settings.readers):
                        taken.shared.append(_bound(settings.host, port, shares=True))
            if settings.socket_path is not None:
                taken.unix.append(_bound_path(settings.socket_path))
                taken.path = settings.socket_path
        except BaseException:
            taken.close()
            raise
        return taken

    @property
    def port(self) -> int:
        """The TCP port; 0 if the endpoint listens on no TCP socket."""
        first = self.tcp or next(iter(self.shared), None)
        return 0 if first is None else int(first.getsockname()[1])

    def take_machine_socket(self, folder: Path, port: int) -> None:
        """Take the socket for clients on this machine, if it is wanted: of the server of a data folder, which is there,
        at a gRPC port. Where that cannot be, they call by gRPC.
        """
        place = machine_socket_of(folder, port) if self._for_this_machine else None
        if place is None:
            return
        try:
            self.unix.append(bind_machine_socket(place, LISTEN_BACKLOG))
        except OSError as error:
            logger.warning("clients on this machine have no socket of their own, and call by gRPC: %s", error)
        else:
            self.machine = place

    def close(self) -> None:
        """Idempotent."""
        for each in (self.tcp, *self.unix, *self.shared):
            if each is not None:
                each.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self.tcp = self.path = self.machine = None
        self.shared, self.unix = [], []


def _bound(host: str, port: int, *, shares: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio asks the protocol of a socket, and not its type, before it turns Nagle's algorithm off.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        made.bind((host, port))
        made.listen(LISTEN_BACKLOG)
        made.setblocking(False)
    except (OSError, OverflowError) as error:
        made.close()
        raise PortInUse(
            f"port {port} on {host} cannot be listened on by the Redis protocol ({error}): another server may have it; "
            "stop that one, or choose another port with --resp-port",
            port=port,
        ) from error
    return made


def _bound_path(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            made.bind(str(path))
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not stat.S_ISSOCK(os.stat(path).st_mode) or _answers(path):
                raise
            path.unlink()  # of a server that was killed
            made.bind(str(path))
        # Nobody can connect before `listen`.
        os.chmod(path, FILE_MODE)
        made.listen(LISTEN_BACKLOG)
        made.setblocking(False)
    except OSError as error:
        made.close()
        raise PortInUse(
            f"the socket {path} cannot be listened on ({error.strerror or error}): another server may have it; stop "
            "that one, or name another path"
        ) from error
    return made


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def tls_context(settings: RespSettings) -> ssl.SSLContext | None:
    """What TLS needs; None where it is not wanted. Files that change are read again at the next handshake; while they
    cannot be used, what was read before is. Raises `InvalidRequest`.
    """
    context = _loaded(settings)
    if context is None:
        return None
    latest, stamp = context, _stamp(settings)

    def renew(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal latest, stamp
        now = _stamp(settings)
        if now != stamp:
            try:
                latest, stamp = _loaded(settings) or latest, now
            except InvalidRequest as error:
                logger.error("new certificates cannot be used, the endpoint goes on with the old ones: %s", error)
        connection.context = latest

    context.sni_callback = renew
    return context


def _stamp(settings: RespSettings) -> list[tuple[int, int] | None]:
    """What changes when a certificate or its key does."""
    files = [each for each in (settings.tls_certificate, settings.tls_key) if each is not None]
    found = [each.stat() if each.exists() else None for each in files]
    return [None if each is None else (each.st_ino, each.st_mtime_ns) for each in found]


def _loaded(settings: RespSettings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None and settings.tls_key is None:
        return None
    if settings.tls_certificate is None or settings.tls_key is None:
        raise InvalidRequest("TLS needs both a certificate and its key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise InvalidRequest(
            f"{settings.tls_certificate} and {settings.tls_key} cannot be used for TLS ({error}): name a certificate "
            "and its key, both PEM"
        ) from error
    return context
