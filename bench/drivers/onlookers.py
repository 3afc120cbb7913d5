"""Who looks at a server while it is measured, in a process of their own: their work is not the callers'.

`python -m bench.drivers.onlookers PORT` does what a Prometheus and an open console do: `GET /metrics` each second, and
one stream of `GET /events`. With `collect` in place of a port it is a collector of traces on a free port, which it
prints. It ends when its standard input does, and prints how many answers it has read.
"""

from __future__ import annotations

import http.client
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

__all__: list[str] = []

_SCRAPE_S: Final = 1.0
_START_S_MAX: Final = 30.0


class _Looks:
    """How many answers came."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.count = 0

    def _connected(self) -> http.client.HTTPConnection:
        """The port is bound a little later than that of gRPC."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        late = time.monotonic() + _START_S_MAX
        while True:
            try:
                connection.connect()
            except ConnectionRefusedError:
                assert time.monotonic() < late, f"nobody listens on port {self._port}"
                time.sleep(0.01)
            else:
                return connection

    def scrape(self) -> None:
        """`GET /metrics` each second, over one connection."""
        connection = self._connected()
        while True:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read()
            assert answer.status == http.HTTPStatus.OK, text
            self.count += 1
            time.sleep(_SCRAPE_S)

    def follow(self) -> None:
        """One stream of `GET /events`."""
        connection = self._connected()
        connection.request("GET", "/events")
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK, answer.read()
        while answer.readline():
            self.count += 1


class _Collector(BaseHTTPRequestHandler):
    """Takes spans, and forgets them."""

    count = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        type(self).count += 1
        self.send_response(http.HTTPStatus.OK)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: nobody reads it."""


def _begin(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _main() -> None:
    if sys.argv[1] == "collect":
        collector = ThreadingHTTPServer(("127.0.0.1", 0), _Collector)
        _begin(collector.serve_forever)
        sys.stdout.write(f"{collector.server_port}\n")
        sys.stdout.flush()
        sys.stdin.read()
        sys.stdout.write(f"{_Collector.count}\n")
        return
    looks = _Looks(int(sys.argv[1]))
    _begin(looks.scrape)
    _begin(looks.follow)
    sys.stdin.read()
    sys.stdout.write(f"{looks.count}\n")


if __name__ == "__main__":
    _main()
