"""Duramen for programs with an event loop: `await duramen.aio.connect("localhost:7070")`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from duramen.client.context import TIMEOUT_DEFAULT_S, Address, check_timeout
from duramen.client.database import Database
from duramen.client.model.session import Session
from duramen.client.table import Table
from duramen.later_names import later_names
from duramen.tracing.asked_for import client_operations
from log_tier.access.client.client_credentials import client_credentials
from log_tier.access.client.client_target import parse_target
from log_tier.model.errors import InvalidRequest
from log_tier.rpc.credentials import CREDENTIALS, proving
from log_tier.rpc.security import SECURITY, secured

if TYPE_CHECKING:
    from duramen.client.row_table import RowTable
    from duramen.client.typed_table import TypedTable

__all__ = ["Database", "RowTable", "Table", "TypedTable", "connect", "open"]

_LATER: Final = {"RowTable": "duramen.client.row_table", "TypedTable": "duramen.client.typed_table"}

if not TYPE_CHECKING:
    __getattr__, __dir__ = later_names(globals(), _LATER)


async def connect(
    target: str | Sequence[str],
    *,
    timeout: float = TIMEOUT_DEFAULT_S,
    compress: bool = False,
    direct: bool = True,
    ca: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    key: str | os.PathLike[str] | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    user: str | None = None,
    password: str | None = None,
    traces: bool | float = False,
) -> Database:
    """Connect to a server at `host:port`, or to the first of several that answers (a sequence, or commas between).

    `timeout`: the default of every call, and the limit of this one, in seconds. `compress`: compress batches with zstd
    when that makes them smaller. `direct`: send requests straight to the nodes and the log of a cluster; if
    False, everything goes through the server at `target`, which passes on what it does not hold.

    `duramens://host:port,host:port` calls servers with TLS; `ca` is then the file of the CA that signed their
    certificates, and `certificate` and `key` are the files of the client's own, if it shows one.

    Where the cluster has users: `token`, or a file with one (`token_file`, of mode 0600, read again when it has
    changed), or `user` and `password` prove who calls, else DURAMEN_TOKEN, DURAMEN_TOKEN_FILE, or DURAMEN_USER and
    DURAMEN_PASSWORD of the environment. `duramens://alice@host:port` names the user too. A secret goes to other
    machines by TLS only.

    `traces`: make each call of a table an operation of OpenTelemetry, by the program's own providers: a span, which the
    servers continue, and its duration in `db.client.operation.duration`, where a meter provider is set before. A number
    up to 1 is the share of the calls outside of the program's spans that are traced; the others cost nothing. It needs
    the extra `otel`.

    A server that is away, or starting, is tried again until `timeout`. What a retry cannot mend is raised at once.

    Raises `Disconnected` if no server answers in time; `HandshakeFailed`, which is one of these, if TLS fails;
    `CertificateInvalid` for files that cannot be used; `Unauthenticated` if the proof is none; `InvalidRequest` for a
    secret that cannot be used or sent, and for `traces` without OpenTelemetry.
    """
    from duramen.client.transport.connect import connect_to

    check_timeout(timeout)
    servers, secure, address_user = parse_target(target)
    security = SECURITY.get()
    credentials = CREDENTIALS.get()
    if credentials is None or address_user or any(each is not None for each in (token, token_file, user, password)):
        credentials = client_credentials(
            token=token, token_file=token_file, user=user, password=password, address_user=address_user
        )
    if secure:
        # Here, and not at the top: `cryptography` is for those who use it.
        from duramen.certificates.channel_files import channel_files

        security = channel_files(*(None if each is None else Path(each) for each in (ca, certificate, key)))
    elif ca is not None or certificate is not None or key is not None:
        raise InvalidRequest(f"certificates are for servers with TLS: call {', '.join(servers)} with duramens://")
    address = Address(servers, timeout, compress, direct, security=security, credentials=credentials, traces=traces)
    if traces:
        client_operations(servers, traces)  # the error for a missing package comes before any connection
    with secured(security), proving(credentials):
        connection = await connect_to(servers, timeout=timeout, direct=direct)
    return Database(connection, timeout=timeout, compress=compress, address=address)


async def open(  # noqa: A001
    path: str | os.PathLike[str],
    *,
    log: str | None = None,
    take_over: bool = False,
    timeout: float = TIMEOUT_DEFAULT_S,
    compress: bool = False,
    snapshot_every_s: float = 0.0,
    traces: bool | float = False,
) -> Database:
    """Open the database in the folder `path` inside this process, and make it where it is missing. No server.

    `log`: the URL of a log outside of the folder (`kafka://host:port`); the folder then holds indexes only, and may be
    lost. Raises `FolderInUse` where another process has it open, `ForeignFolder` where it holds something else, and
    with a `log` also `Disconnected`, and `NodeIdTaken` where another folder is that log's only node; `take_over` says
    that that one is lost for good.

    `snapshot_every_s`: seconds between two snapshots of a partition that changed, into the folder's `snapshots`; 0:
    none, and then no table's retention removes anything. `traces` as for `connect`.
    """
    from duramen.server.wiring.serving_node import SnapshotPolicy
    from duramen.server.wiring.single_machine import open_local_data
    from router.data.direct_reads import DirectReads

    check_timeout(timeout)
    if not 0 <= snapshot_every_s < math.inf:
        raise InvalidRequest(f"snapshot_every_s is {snapshot_every_s}: give seconds, or 0 for no snapshots")
    policy = SnapshotPolicy(every_s=snapshot_every_s)
    operations = client_operations((), traces) if traces else None
    data_plane = await open_local_data(Path(path), log_url=log, take_over=take_over, snapshots=policy)

    def direct(name: str, session: Session) -> DirectReads:
        return DirectReads(data_plane, name, session.offsets, session.saw)

    return Database(data_plane, timeout=timeout, compress=compress, direct=direct, operations=operations)
