"""The shortest way from a blocking caller to a server: its own thread, its own socket, the server's RESP endpoint.

Where one server is the whole cluster, `get(key)` and `put(key, value)` without other arguments go to its RESP endpoint:
no event loop, no gRPC, no other thread. Every `duramen up` has one for clients on its machine, a socket that is no file
(`log_tier.privacy.machine_socket`); with TLS it is the only one that is used. All other calls, and those that this path
cannot serve at once, go over gRPC, which waits, retries and reports errors. The session is the same one.

    D1  A read carries what the session has seen, and the reply the offset at which it was read.
    D2  A put is a batch of its own, with a producer id of its thread's and a sequence. If its reply is lost, the same
        bytes go again by gRPC, and take effect once.
    D3  A connection on which anything went wrong is closed: a late reply must not answer the next call.
    D4  Where more than `_PUTS_MAX` puts or `_GETS_MAX` gets are under way at once, all of them go by gRPC for a second
        (`crowd`): it gathers them. A thread that comes when `_LINES_MAX` others have a connection gets none.
    D5  A connection of a user begins with AUTH. Where the endpoint refuses the secret, all calls go by gRPC, which says
        why, until there is another secret.
"""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol

from duramen.client.model.results import Done
from duramen.client.model.session import Session
from duramen.client.transport.crowd import Crowd
from log_tier.concurrency.forking import IMPORTING, on_fork
from log_tier.model.batch import Columns, encode_batch
from log_tier.model.batch_header import HEADER_BYTES
from log_tier.model.errors import DuramenError
from log_tier.model.identifiers import NOTHING, Offset, PartitionId
from log_tier.model.record import KEY_BYTES_MAX
from log_tier.model.table_ref import TableRef
from log_tier.rpc.credentials import CallCredentials
from router.data.gather.acknowledged import NOTED_MAX, Acknowledged
from router.data.seam import NOT_FRESH
from router.remote.resp_place import NOWHERE, RespPlace

__all__ = ["FastPathTable", "Lost", "RespFastPath", "reachable_place"]

# A read takes some microseconds and a put a sync. A call without an answer by then goes by gRPC, which waits longer.
_PATIENCE_S: Final = 2.0

# After so many calls that could have gone there, the server is asked for its endpoint, then after twice as many, and so
# on. Most programs that make few calls never cause it to be opened.
_LOOK_AFTER: Final = 16

# A socket of this machine is there, or it is not.
_LOOK_S: Final = 0.1

# From so many on gRPC has more of them done in a second.
_PUTS_MAX: Final = 8
_GETS_MAX: Final = 32

# A server has so many for thousands of processes, and their threads may be idle.
_LINES_MAX: Final = 64

_VALUE_BYTES_MAX: Final = 1 << 20
"""Larger ones gain nothing here."""


class Finding(Protocol):
    """Where the table behind a name is kept."""

    @property
    def ref(self) -> TableRef | None:
        """The table; None: it is not known now."""
        ...


class Lost(NamedTuple):
    """A put that was sent and not answered: these bytes must be repeated, and nothing else."""

    ref: TableRef
    partition: PartitionId
    records: Columns
    batch: bytes


def reachable_place(place: RespPlace, *, secured: bool, has_secret: bool) -> RespPlace:
    """The way to an endpoint that this process has: by the socket of the machine if the server is on it, or by TCP.
    `NOWHERE`: there is none, and all calls go by gRPC. `secured`: the client's channels are; then by no plain TCP.
    """
    if place.users and not has_secret:
        return NOWHERE
    if place.machine_socket:
        with suppress(OSError):
            _connected(place, _LOOK_S).close()
            return place._replace(port=0)
    if place.port and not secured and not place.secured:
        return place._replace(machine_socket="")
    return NOWHERE


def _connected(place: RespPlace, timeout: float = _PATIENCE_S) -> socket.socket:
    if place.machine_socket:
        from log_tier.privacy.machine_socket import MachineSocket, connect_machine_socket

        return connect_machine_socket(MachineSocket(place.machine_socket, place.owner), timeout)
    made = socket.create_connection((place.host, place.port), timeout=timeout)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class _Line:
    """One thread's connection. Everything is done by that thread, but for `end`."""

    def __init__(self, place: RespPlace) -> None:
        import hiredis

        self.socket = _connected(place)
        # By the kernel, and not by `settimeout`, which asks it before every step.
        self.socket.settimeout(None)
        patience = struct.pack("@ll", int(_PATIENCE_S), 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, patience)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        reader: Any = hiredis.Reader()
        self._feed, self._gets = reader.feed, reader.gets
        self._pack: Any = hiredis.pack_command
        self.process = os.getpid()
        self.producer = secrets.randbits(63) | 1
        self.sequences: dict[tuple[str, int], int] = {}

    def log_in(self, user: str, secret: str) -> bool:
        """Prove who calls. False: the endpoint refused. Raises `OSError`."""
        return bool(self.ask(b"AUTH", user.encode(), secret.encode()) == b"OK")

    def ask(self, *words: bytes) -> Any:
        """One command and its reply. Raises `OSError`; then this line is over."""
        self.socket.sendall(self._pack(words))
        while (reply := self._gets()) is False:
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionError("the server has ended the connection")
            self._feed(data)
        return reply

    def end(self) -> None:
        """Wake the thread that waits for a reply, and close the connection."""
        with suppress(OSError):  # it may be over already
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


class RespFastPath:
    """The way to one server's endpoint, for all threads. `close()` ends it."""

    def __init__(
        self,
        place: RespPlace,
        session: Session,
        *,
        compress: bool,
        credentials: CallCredentials | None = None,
        acknowledged: Acknowledged | None = None,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`place`: `NOWHERE` until it is found. `acknowledged`: notes the puts that have their place in the log.
        `look`: has the server asked for its endpoint, and sets `place`; it returns at once. Any thread may call it.
        """
        self.session = session
        self.compress = compress
        self.acknowledged = Acknowledged() if acknowledged is None else acknowledged
        self.place, self.is_known = NOWHERE, False
        self.missed, self.look_at = 0, _LOOK_AFTER
        """Calls that went the long way, and after how many of them the endpoint is looked for."""
        self.found(place)
        self._credentials = credentials
        self._refused = ""
        """The secret that the endpoint refused last."""
        self._own = threading.local()
        self._lines: set[_Line] = set()
        self.gets, self.puts = Crowd(_GETS_MAX), Crowd(_PUTS_MAX)
        self._lock = threading.Lock()
        self._closed = False
        self._look = look
        on_fork(self)

    def after_fork(self) -> None:
        """The lines are the parent's: give back the descriptors, which ends nothing there, and make new ones."""
        self._lock = threading.Lock()
        for line in self._lines:
            line.socket.close()
        self._lines = set()
        self.gets, self.puts = Crowd(_GETS_MAX), Crowd(_PUTS_MAX)

    def table(self, finding: Finding) -> FastPathTable:
        """The fast path to a table."""
        return FastPathTable(self, finding)

    def found(self, place: RespPlace) -> None:
        """The endpoint is there, or not to be found (`NOWHERE`)."""
        if place.is_known:
            # Before a line needs them: that may be in a process that was forked from a thread's import.
            with IMPORTING:
                import encodings.idna  # noqa: F401 - which `socket.getaddrinfo` imports

                import hiredis  # noqa: F401
        if place.is_known or self.is_known:
            self.missed, self.look_at = 0, _LOOK_AFTER
        self.place, self.is_known = place, place.is_known

    def line(self) -> _Line | None:
        """This thread's connection; None if there can be none now."""
        line: _Line | None = getattr(self._own, "line", None)
        if line is not None and line.process == os.getpid():
            return line
        if self._closed or not self.is_known:
            self.missed += 1
            if self.missed >= self.look_at:
                self.look_again()
            return None
        if len(self._lines) >= _LINES_MAX:
            return None
        secret = None if self._credentials is None else self._credentials.secret()
        if secret is not None and secret == self._refused:
            return None
        try:
            line = self._new_line(self.place, secret)
        except OSError:
            self.found(NOWHERE)  # until the server is there again, and says where
            return None
        if line is None:
            return None
        with self._lock:
            if self._closed:
                line.end()
                return None
            self._lines.add(line)
        self._own.line = line
        self._own.keeper = _Keeper(self, line)
        return line

    def look_again(self) -> None:
        """Have the endpoint looked for, and for the next time only after twice as many calls."""
        self.look_at *= 2
        self._look()

    def _new_line(self, place: RespPlace, secret: str | None) -> _Line | None:
        """A connection, logged in where there is a secret; None: the endpoint refused it. Raises `OSError`."""
        line = _Line(place)
        try:
            if secret is None or self._credentials is None or line.log_in(self._credentials.user, secret):
                return line
        except BaseException:
            line.end()
            raise
        line.end()
        self._refused = secret
        return None

    def drop_refused(self, line: _Line, reply: Any) -> None:
        """Drop a connection whose proof does not count any more."""
        if str(reply).startswith(("NOAUTH ", "WRONGPASS ")):
            self.drop(line)

    def drop(self, line: _Line) -> None:
        """Something went wrong on it: the next call takes a new one."""
        with self._lock:
            self._lines.discard(line)
        line.end()
        if getattr(self._own, "line", None) is line:
            self._own.line = None

    def close(self) -> None:
        """Close all connections; later calls take the way over gRPC. Idempotent."""
        with self._lock:
            self._closed = True
            lines, self._lines = self._lines, set()
        for line in lines:
            line.end()


class _Keeper:
    """Goes with its thread, and takes the thread's connection along."""

    def __init__(self, fast_path: RespFastPath, line: _Line) -> None:
        self._fast_path, self._line = fast_path, line

    def __del__(self) -> None:
        if self._line.process == os.getpid():
            self._fast_path.drop(self._line)


class FastPathTable:
    """One table's gets and puts. Safe from any thread."""

    def __init__(self, fast_path: RespFastPath, finding: Finding) -> None:
        self.way: Final = fast_path
        self._finding = finding

    def get(self, key: bytes) -> object:
        """The value, None where the key is absent, or `NOT_FRESH`: ask the slow path. Some 20 µs."""
        ref = self._finding.ref
        if ref is None or type(key) is not bytes or not 0 < len(key) <= KEY_BYTES_MAX:
            return NOT_FRESH
        fast_path = self.way
        gets = fast_path.gets
        if gets.goes_together() or (line := fast_path.line()) is None:
            return NOT_FRESH
        partition = ref.partition_of(key)
        seen = fast_path.session.offsets(ref)[partition]
        place = (ref.id.encode(), b"%d" % partition, b"%d" % seen)
        try:
            gets.calls.add(line)
            reply = line.ask(b"DURAMEN.READ", *place, key)
            if type(reply) is not list and str(reply).startswith("TRYAGAIN ") and seen != NOTHING:
                # What was just written will be applied soon.
                line.ask(b"DURAMEN.AWAIT", *place)
                reply = line.ask(b"DURAMEN.READ", *place, key)
        except OSError:
            fast_path.drop(line)
            return NOT_FRESH
        except BaseException:
            fast_path.drop(line)  # an interrupt: its reply is still to come
            raise
        finally:
            gets.calls.discard(line)
        if type(reply) is not list:
            fast_path.drop_refused(line, reply)
            return NOT_FRESH  # an error: the slow path says it in our words
        fast_path.session.saw(ref, partition, Offset(reply[0]))
        return reply[1]

    def put(self, key: bytes, value: bytes) -> Done | Lost | None:
        """Write a value. `Lost`: repeat it by gRPC; None: nothing was sent, write it by gRPC."""
        ref = self._finding.ref
        if (
            ref is None
            or type(key) is not bytes
            or not 0 < len(key) <= KEY_BYTES_MAX
            or type(value) is not bytes
            or len(value) > _VALUE_BYTES_MAX
        ):
            return None
        fast_path = self.way
        puts = fast_path.puts
        if puts.goes_together() or (line := fast_path.line()) is None:
            return None
        partition = ref.partition_of(key)
        records = Columns([key], [value])
        place = (ref.id, partition)
        sequence = line.sequences.get(place, 0)
        try:
            batch = encode_batch(records, producer_id=line.producer, sequence=sequence, compress=fast_path.compress)
        except DuramenError:
            return None
        line.sequences[place] = sequence + 1
        try:
            puts.calls.add(line)
            reply = line.ask(b"DURAMEN.WRITE", ref.id.encode(), b"%d" % partition, batch)
        except OSError:
            fast_path.drop(line)
            return Lost(ref, ref.partition(partition), records, batch)
        except BaseException:
            fast_path.drop(line)
            raise
        finally:
            puts.calls.discard(line)
        if type(reply) is not list:
            fast_path.drop_refused(line, reply)
            # What was refused is refused by gRPC too, in our words.
            return None if str(reply).startswith("NOTWRITTEN ") else Lost(ref, ref.partition(partition), records, batch)
        offset = Offset(reply[0])
        noted = fast_path.acknowledged.noted
        noted.append((ref.partition(partition), batch[:HEADER_BYTES], offset, reply[1] if len(reply) > 1 else 0, False))
        if len(noted) > NOTED_MAX:
            fast_path.acknowledged.count()
        fast_path.session.saw(ref, partition, offset)
        return Done(ref.id, partition, offset)
