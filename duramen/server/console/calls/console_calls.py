"""`POST /console/call`: a page's call is answered by this server's gRPC services."""

from __future__ import annotations

from typing import Final

from duramen.server.console.calls.call_messages import answer_to_json, error_to_json, parse_call
from duramen.server.console.calls.local_call import FindMethod, call_locally
from duramen.server.sight.http_messages import HttpReply, HttpRequest, header_of
from log_tier.concurrency.sized_work import run_sized
from log_tier.model.errors import DuramenError, Overloaded, Unauthenticated
from log_tier.rpc.status_codes import http_status_of
from log_tier.trust.caller import Caller

__all__ = ["CALL_PATH", "ConsoleCalls"]

CALL_PATH: Final = "/console/call"

# A page that shows a form for a token must not have the browser's own form open before it.
_CHALLENGE: Final = ("www-authenticate", 'Bearer realm="duramen"')

# To write so many bytes of protobuf as JSON costs as much as one key of a read.
_BYTES_OF_ITEM: Final = 4


class ConsoleCalls:
    """Answers calls of one server, at most `calls_max` at once. Belongs to its event loop."""

    def __init__(self, find: FindMethod, *, calls_max: int) -> None:
        self._find = find
        self._calls_max = calls_max
        self.calls = 0
        """How many are under way."""

    async def answer(self, _: Caller, request: HttpRequest) -> HttpReply:
        """Answer one call. Who calls is in its header, which the guard of the services looks at."""
        try:
            if self.calls >= self._calls_max:
                raise Overloaded(f"{self.calls} calls of pages are under way here, and there may be no more: ask later")
            self.calls += 1
            try:
                return await self._answered(request)
            finally:
                self.calls -= 1
        except DuramenError as error:
            challenge = (_CHALLENGE,) if isinstance(error, Unauthenticated) else ()
            return HttpReply(http_status_of(type(error)), error_to_json(error) + b"\n", challenge)

    async def _answered(self, request: HttpRequest) -> HttpReply:
        asked = parse_call(request.body)
        found = await call_locally(self._find, asked, header_of(request.head, b"authorization"), request.peer)
        items = sum(each.ByteSize() for each in found.replies) // _BYTES_OF_ITEM
        return HttpReply(200, await run_sized(items, lambda: answer_to_json(found.replies, more=found.more)) + b"\n")
