"""Duramen that is looked at while it serves, Duramen that nobody can look at, and Duramen whose calls are traced."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bench.drivers.duramen import PARTITIONS, TABLE, Duramen
from bench.drivers.resp_endpoint import RespEndpoint
from bench.server_process import free_port

__all__ = ["DuramenTraced", "DuramenUnseen", "DuramenWatched", "RespUnseen", "RespWatched"]

_UNSEEN: Final = ("--http-port", "-1", "--slow-call-ms", "0")
_WATCHED: Final = "; scraped each second, and a console open at it"
_SHARE: Final = 0.01
"""Of the calls: those that are traced."""


class _Onlookers:
    """The process of those who look."""

    def __init__(self, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.drivers.onlookers", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """The next line that it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def end(self) -> int:
        """How many answers it has read."""
        said, _ = self._process.communicate()
        assert self._process.returncode == 0, "who looks has failed"
        return int(said)


class _Watched:
    """In front of a driver: the server has its HTTP port, history and slow log, as one has that is started without a
    thought, and is looked at.
    """

    def __init__(self) -> None:
        super().__init__()
        self.note: str = self.note + _WATCHED
        self._http_port = free_port()
        self._onlookers: _Onlookers | None = None

    def _options(self, folder: Path) -> Sequence[str]:
        return ("--http-port", str(self._http_port))

    async def _connect(self, folder: Path) -> Any:
        self._onlookers = _Onlookers(str(self._http_port))
        return await super()._connect(folder)  # type: ignore[misc]  # of the driver behind it

    async def stop(self) -> None:
        if self._onlookers is not None:
            assert self._onlookers.end() > 0, "nobody has looked"
        await super().stop()  # type: ignore[misc]  # of the driver behind it


class DuramenWatched(_Watched, Duramen):
    """`duramen up`, looked at."""


class DuramenUnseen(Duramen):
    """Without an HTTP port and without a slow log."""

    def _options(self, folder: Path) -> Sequence[str]:
        return _UNSEEN


class RespWatched(_Watched, RespEndpoint):
    """The endpoint of the Redis protocol of such a server."""


class RespUnseen(RespEndpoint):
    """The same of a server that nobody can look at."""

    def _options(self, folder: Path) -> Sequence[str]:
        return _UNSEEN


class DuramenTraced(DuramenUnseen):
    """One call of a hundred is a trace, from the client to the disk, that a collector on loopback gets."""

    def __init__(self) -> None:
        super().__init__()
        self.note += "; one call of a hundred is traced, client and server, and sent to a collector"
        self._collector = _Onlookers("collect")
        self._provider: Any = None
        os.environ |= {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{int(self._collector.line())}",
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        }

    def _options(self, folder: Path) -> Sequence[str]:
        return (*_UNSEEN, "--traces", "otlp")

    async def _connect(self, folder: Path) -> Any:
        sdk = importlib.import_module("opentelemetry.sdk.trace")
        export = importlib.import_module("opentelemetry.sdk.trace.export")
        otlp = importlib.import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        sampling = importlib.import_module("opentelemetry.sdk.trace.sampling")
        self._provider = sdk.TracerProvider(sampler=sampling.ALWAYS_ON)
        self._provider.add_span_processor(export.BatchSpanProcessor(otlp.OTLPSpanExporter()))
        importlib.import_module("opentelemetry.trace").set_tracer_provider(self._provider)
        database = await importlib.import_module("duramen.aio").connect(self.address, traces=_SHARE)
        with suppress(importlib.import_module("duramen").TableExists):  # in the folder already
            await database.create_table(TABLE, partitions=PARTITIONS)
        return database

    async def stop(self) -> None:
        if self._provider is not None:
            self._provider.shutdown()
        await super().stop()
        assert self._collector.end() > 0, "no span has come"
