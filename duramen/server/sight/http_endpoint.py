"""Health and status over HTTP/1.1, for probes, load balancers, browsers and `curl`.

    GET /livez     200 while the event loop turns
    GET /readyz    200 if the server answers everything that it should, else 503; the JSON says why
    GET /status    the status document
    GET /metrics   the same and what the server measures, for Prometheus
    GET /slow      the last calls that took long, and where their time went

Without users it answers the last three only by an address, `localhost`, or the name that it listens on: a web page
whose name somebody lets point here could read it in its visitor's browser.

With certificates it is HTTPS. Where the catalog has users, they need one (`Authorization: Bearer` or `Basic`), and
show the tables that are shown to that user. The first two answer everybody, because probes have no user; they
name to nobody more than the kinds of troubles.

A route may answer a whole tree of paths, and say errors in its own form.

A route that takes calls (`POST`) answers no page of another server: a browser says whose page asks, and that it sends
JSON, which a form cannot. Who calls, and what they may, is decided where the call is. A call ends when its client goes.

Nothing that a client sends makes it hold more, or wait longer, than `HttpLimits` say. A connection that is idle yields
its place to one that comes: a flood of them does not keep probes out.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from types import MappingProxyType
from typing import Final

import h11

from duramen.server.sight.http_attendance import while_there
from duramen.server.sight.http_limits import HttpLimits
from duramen.server.sight.http_listener import HttpListener
from duramen.server.sight.http_messages import (
    HttpReply,
    HttpRequest,
    HttpRoute,
    header_of,
    host_of,
    peer_of,
    problem,
    read_request,
    send_reply,
    send_stream,
)
from duramen.server.sight.http_places import HttpPlaces
from duramen.server.sight.metrics import metrics_to_text
from duramen.server.sight.server_sight import ServerSight
from log_tier.access.authenticator import Authenticator
from log_tier.access.call_audit import CallAudit, address_of
from log_tier.access.current import CALLER
from log_tier.access.demands import ANY_USER
from log_tier.access.gate import NOBODY, Gate
from log_tier.concurrency.sized_work import run_sized
from log_tier.concurrency.tasks import end_tasks
from log_tier.model.errors import DuramenError, InvalidRequest, Overloaded, PermissionDenied, PortInUse, Unauthenticated
from log_tier.slow_calls.slow_call_log import SlowCallLog
from log_tier.trust.caller import Caller

__all__ = ["HttpEndpoint"]

# The lines of one partition cost as much as so many keys of a read, and those of the server itself.
_PARTITION_ITEMS: Final = 20
_SERVER_ITEMS: Final = 300

_CHALLENGE: Final = ("www-authenticate", 'Bearer realm="duramen", Basic realm="duramen"')


_LIMITS: Final = HttpLimits()


class HttpEndpoint:
    """A listening endpoint. `open()` makes one, `close()` ends it. Belongs to one event loop."""

    def __init__(
        self,
        sight: ServerSight,
        gate: Gate,
        authenticator: Authenticator,
        audit: CallAudit | None,
        slow: SlowCallLog,
        *,
        host: str,
        limits: HttpLimits,
        routes: Mapping[str, HttpRoute],
    ) -> None:
        self._limits = limits
        self._host = host.lower()
        self._sight = sight
        self._audit = audit
        self._slow_calls = slow
        self._gate = gate
        self._authenticator = authenticator
        self._listener: HttpListener | None = None
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None]] = {}
        self._places: HttpPlaces[asyncio.StreamWriter] = HttpPlaces(limits.connections_max, self._end)
        self._routes = {
            "/livez": HttpRoute(self._livez, shows_status=False),
            "/readyz": HttpRoute(self._readyz, shows_status=False),
            "/status": HttpRoute(self._status, shows_status=True),
            "/metrics": HttpRoute(self._metrics, shows_status=True),
            "/slow": HttpRoute(self._slow, shows_status=True),
            **routes,
        }

    @classmethod
    async def open(
        cls,
        sight: ServerSight,
        gate: Gate,
        authenticator: Authenticator,
        audit: CallAudit | None,
        slow: SlowCallLog,
        *,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        limits: HttpLimits = _LIMITS,
        routes: Mapping[str, HttpRoute] = MappingProxyType({}),
    ) -> HttpEndpoint:
        """Listen. `port`: 0 for a free one. `tls`: speak HTTPS. `audit`: None where nothing writes it. `routes`: what
        it answers on top of its own. Raises `PortInUse`.
        """
        made = cls(sight, gate, authenticator, audit, slow, host=host, limits=limits, routes=routes)
        try:
            made._listener = await HttpListener.open(made._connected, host, port, tls=tls, limits=limits)
        except OSError as error:
            raise PortInUse(
                f"port {port} on {host} cannot be listened on for HTTP ({error.strerror}): choose another one with "
                "--http-port",
                port=port,
            ) from error
        return made

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._listener is not None, "the port of an endpoint that does not listen"
        return self._listener.port

    async def close(self) -> None:
        """Listen no longer, and end what is open. Idempotent."""
        listener, self._listener = self._listener, None
        handshakes = [] if listener is None else listener.close()
        await end_tasks(*handshakes, *self._open.values())

    # --- connections

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client has connected. The task is this endpoint's own: `close` cancels it."""
        if self._listener is None or not self._places.enter(writer, address_of(peer_of(writer))):
            writer.transport.abort()
            return
        task = asyncio.get_running_loop().create_task(self._attend(reader, writer), name="a client of HTTP")
        self._open[writer] = task
        task.add_done_callback(lambda _: self._left(writer))

    def _end(self, writer: asyncio.StreamWriter) -> None:
        """A client has lost its place to one that came."""
        writer.transport.abort()
        self._open[writer].cancel()

    def _left(self, writer: asyncio.StreamWriter) -> None:
        self._open.pop(writer, None)
        self._places.leave(writer)

    async def _attend(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(TimeoutError, ConnectionError, ssl.SSLError, h11.LocalProtocolError):
                await self._serve(reader, writer)
                writer.close()
                async with asyncio.timeout(self._limits.timeout_s):
                    await writer.wait_closed()
        finally:
            writer.transport.abort()  # what a client has not read by now it does not get

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head_bytes_max)
        while True:
            try:
                async with asyncio.timeout(self._limits.timeout_s):
                    read = await read_request(connection, reader, self._limits.head_bytes_max, self._body_bytes_max)
            except h11.RemoteProtocolError as error:
                reply = problem(error.error_status_hint, "this is no request of HTTP/1.1 that is answered here")
                await send_reply(connection, writer, reply, close=True)
                return
            if read is None:
                return
            self._places.works(writer)
            request = HttpRequest(read[0], peer_of(writer), read[1])
            is_head = request.head.method == b"HEAD"
            if request.head.method == b"POST":
                answered = await while_there(self._answer(request), connection, reader, self._limits.head_bytes_max)
                if answered is None:
                    return
                reply = answered
            else:
                reply = await self._answer(request)
            if reply.stream is not None:
                await send_stream(connection, writer, reply, timeout_s=self._limits.stream_timeout_s, is_head=is_head)
                return
            self._places.rests(writer)
            async with asyncio.timeout(self._limits.timeout_s):
                await send_reply(connection, writer, reply, is_head=is_head)
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
            await asyncio.sleep(0)  # of requests that came together each is a turn of the loop

    # --- requests

    def _route(self, path: str) -> HttpRoute | None:
        """What answers a path: its own route, or that of the tree in which it is."""
        route = self._routes.get(path)
        if route is None and path.count("/") > 1:
            route = self._routes.get(path[: path.index("/", 1)])
            return route if route is not None and route.is_tree else None
        return route

    def _body_bytes_max(self, target: bytes) -> int:
        """Of a body: a call has one, and a request that a tree refuses may."""
        route = self._route(target.partition(b"?")[0].decode("ascii", "replace"))
        return self._limits.call_bytes_max if route is not None and (route.takes_calls or route.is_tree) else 0

    async def _answer(self, request: HttpRequest) -> HttpReply:
        route = self._route(request.path)
        refused = problem if route is None or route.refused is None else route.refused
        methods = (b"GET", b"HEAD") if route is None else (b"POST",) if route.takes_calls else route.methods
        if request.head.method not in methods:
            allowed = b", ".join(methods).decode()
            return refused(405, f"only {allowed.replace(', ', ' and ')} are answered here", (("allow", allowed),))
        if route is None:
            return problem(404, f"there are {', '.join(self._routes)}")
        try:
            self._check_name(route, request)
            if route.takes_calls:
                self._check_page(request)
                return await route.answer(NOBODY, request)
            caller = await self._caller_of(request)
            CALLER.set(caller)
            if route.shows_status:
                self._gate.decide(caller, ANY_USER)
            return await route.answer(caller, request)
        except Unauthenticated as error:
            return refused(401, error.message, (_CHALLENGE,))
        except PermissionDenied as error:
            return refused(403, error.message, ())
        except Overloaded as error:
            return refused(429, error.message, ())
        except InvalidRequest as error:
            return refused(400, error.message, ())
        except DuramenError as error:
            return refused(503, error.message, ())

    def _check_name(self, route: HttpRoute, request: HttpRequest) -> None:
        shows = route.shows_status or route.takes_calls
        if shows and not self._gate.is_closed and not self._is_own(host_of(request.head)):
            raise PermissionDenied(
                "a server without users shows its status by an address, 'localhost', or the name that it listens "
                "on: another name may be a web page's, and this its visitor's browser"
            )

    def _check_page(self, request: HttpRequest) -> None:
        """Raise unless the request is one that a browser lets no page of another server send, or none of a browser."""
        head = request.head
        kind = header_of(head, b"content-type").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise InvalidRequest(f"a call has the content type application/json, and this one {kind!r}")
        site, origin = header_of(head, b"sec-fetch-site"), header_of(head, b"origin")
        # A server behind a proxy does not know by which scheme the browser calls it.
        own = origin.partition("://")[2].lower() == header_of(head, b"host").lower()
        if site not in ("", "same-origin") or not (own or not origin):
            raise PermissionDenied(f"only this server's own page may call it from a browser, and this is {origin!r}'s")

    def _is_own(self, name: str) -> bool:
        """Is it a name that no web page can have?"""
        if name == "localhost" or name.endswith(".localhost") or name == self._host:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True

    async def _caller_of(self, request: HttpRequest) -> Caller:
        """Who calls. A header is looked at only where there are users: raises `Unauthenticated`, `Overloaded`."""
        header = next((value for name, value in request.head.headers if name == b"authorization"), None)
        if header is None or not self._gate.is_closed:
            return NOBODY
        text, peer = header.decode("latin-1"), request.peer
        try:
            caller = await self._authenticator.by_header(text, address=address_of(peer))
        except (Unauthenticated, Overloaded) as error:
            if self._audit is not None:
                self._audit.not_proved(NOBODY, text, peer, error)
            raise
        if self._audit is not None:
            self._audit.proved(caller, peer)
        return caller

    async def _livez(self, _: Caller, __: HttpRequest) -> HttpReply:
        return HttpReply(200, b'{"alive":true}\n')

    async def _readyz(self, caller: Caller, _: HttpRequest) -> HttpReply:
        found = json.loads(await self._sight.status_json(lately=True))
        troubles = found["troubles"]
        if self._gate.is_closed and caller is NOBODY:
            troubles = [{"kind": each["kind"], "blocks": each["blocks"]} for each in troubles]
        body = json.dumps({"ready": found["ready"], "troubles": troubles}, ensure_ascii=False).encode()
        return HttpReply(200 if found["ready"] else 503, body + b"\n")

    async def _status(self, _: Caller, __: HttpRequest) -> HttpReply:
        return HttpReply(200, await self._sight.status_json() + b"\n")

    async def _slow(self, _: Caller, __: HttpRequest) -> HttpReply:
        return HttpReply(200, await self._slow_calls.slow_json() + b"\n")

    async def _metrics(self, _: Caller, request: HttpRequest) -> HttpReply:
        status = await self._sight.status(lately=True)
        measures, accepted = self._sight.measures(), header_of(request.head, b"accept")
        items = _SERVER_ITEMS + _PARTITION_ITEMS * len(status.observed.partitions)
        text = await run_sized(items, lambda: metrics_to_text(status, measures, accepted))
        return HttpReply(200, text.body, content_type=text.content_type)
