"""OTLP over HTTP: where spans go, by OpenTelemetry's environment variables, and how they get there. Blocks.

The rules are those of OpenTelemetry's *OTLP exporter configuration*: the variables of traces come before those of all
signals. Its Python exporter takes objects of its SDK alone, and ours are bytes (`otlp_bytes.py`).
"""

from __future__ import annotations

import gzip
import os
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import requests
from opentelemetry.util.re import parse_env_headers

from log_tier.concurrency.backoff import Backoff
from log_tier.concurrency.clocks import SYSTEM_CLOCK, Clock
from log_tier.model.errors import InvalidRequest

__all__ = ["CollectorAddress", "CollectorLine", "address_of"]

_OURS: Final = "http/protobuf"
_TIMEOUT_S: Final = 10.0
_DEFAULT: Final = "http://localhost:4318"
_PATH: Final = "/v1/traces"
_TAKEN: Final = range(200, 300)
_LATER: Final = frozenset({429, 502, 503, 504})
"""Answers of a collector that may take the same spans later."""
_PAUSE_FIRST_S: Final = 1.0
_PAUSE_MAX_S: Final = 10.0
_COMPRESSIONS: Final[Mapping[str, Callable[[bytes], bytes]]] = {"gzip": gzip.compress, "deflate": zlib.compress}


class CollectorAddress(NamedTuple):
    """Where a collector is, and how it wants to be called."""

    url: str
    headers: Mapping[str, str]
    timeout_s: float
    compression: str
    """`gzip`, `deflate`, or none."""
    trusted: str | bool
    """The file of the CAs; True: those of the machine."""
    pair: str | tuple[str, str] | None
    """The client's certificate, and its key where that is in another file."""


def address_of(environment: Mapping[str, str]) -> CollectorAddress:
    """What OpenTelemetry's variables say. Raises `InvalidRequest`."""

    def said(name: str) -> str:
        of_traces = environment.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}", "").strip()
        return of_traces or environment.get(f"OTEL_EXPORTER_OTLP_{name}", "").strip()

    if said("PROTOCOL") not in ("", _OURS):
        raise InvalidRequest(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {said('PROTOCOL')!r}: traces are sent by {_OURS}, mostly to port 4318"
        )
    url = environment.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "").strip()
    if not url:
        url = (environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip() or _DEFAULT).removesuffix("/") + _PATH
    if not url.startswith(("http://", "https://")):
        raise InvalidRequest(f"OTEL_EXPORTER_OTLP_ENDPOINT is {url!r}: give the collector's URL, http://… or https://…")
    compression = said("COMPRESSION").lower() or "none"
    if compression not in ("none", *_COMPRESSIONS):
        raise InvalidRequest(f"OTEL_EXPORTER_OTLP_COMPRESSION is {compression!r}: it may be none, gzip or deflate")
    try:
        timeout_s = float(said("TIMEOUT") or _TIMEOUT_S)
    except ValueError:
        timeout_s = -1.0
    if not 0 < timeout_s < float("inf"):
        raise InvalidRequest(f"OTEL_EXPORTER_OTLP_TIMEOUT is {said('TIMEOUT')!r}: give seconds")
    files = {name: said(name) for name in ("CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY")}
    for name, file in files.items():
        if file and not os.path.isfile(file):
            raise InvalidRequest(f"OTEL_EXPORTER_OTLP_{name} is {file!r}, which is no file")
    certificate, key = files["CLIENT_CERTIFICATE"], files["CLIENT_KEY"]
    headers = {"content-type": "application/x-protobuf", "user-agent": "duramen"}
    if compression != "none":
        headers["content-encoding"] = compression
    headers |= parse_env_headers(said("HEADERS"), liberal=True)
    pair = (certificate, key) if certificate and key else certificate or None
    return CollectorAddress(url, headers, timeout_s, compression, files["CERTIFICATE"] or True, pair)


class CollectorLine:
    """Sends bodies to one collector, one after the other."""

    def __init__(
        self, address: CollectorAddress, clock: Clock = SYSTEM_CLOCK, *, pause_first_s: float = _PAUSE_FIRST_S
    ) -> None:
        self._pause_first_s = pause_first_s
        self._address = address
        self._clock = clock
        self._session = requests.Session()
        self._closed = threading.Event()

    def send(self, body: bytes) -> bool:
        """Has the collector taken it? A collector that is busy or away is asked again until the time is over."""
        address = self._address
        ends_s = self._clock.monotonic_s() + address.timeout_s
        data = _COMPRESSIONS[address.compression](body) if address.compression in _COMPRESSIONS else body
        backoff = Backoff(self._pause_first_s, _PAUSE_MAX_S)
        while True:
            left_s = ends_s - self._clock.monotonic_s()
            if left_s <= 0:
                return False
            try:
                answer = self._session.post(
                    address.url,
                    data,
                    headers=dict(address.headers),
                    timeout=left_s,
                    verify=address.trusted,
                    cert=address.pair,
                    allow_redirects=False,
                )
            except requests.ConnectionError:
                pass  # it may be back
            except (requests.RequestException, OSError):
                return False
            else:
                if answer.status_code not in _LATER:
                    return answer.status_code in _TAKEN
            pause_s = backoff.next_s()
            if pause_s >= ends_s - self._clock.monotonic_s() or self._closed.wait(pause_s):
                return False

    def close(self) -> None:
        """Ask no more again."""
        self._closed.set()
        self._session.close()
