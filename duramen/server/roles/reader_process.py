"""A reader process of the RESP endpoint: `python -m duramen.server.roles.reader_process`, started by its server only.

Its task comes on the standard input, as one JSON line, and its listening socket as an inherited file. It says `ready`
on the standard output, and then which of its reads were slow; it ends at SIGTERM, or when its server ends.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from duramen.server.log_lines.setup import set_up_logging
from duramen.server.roles.grpc_server import quick_switching
from duramen.server.roles.run import run_role
from duramen.server.supervisor.parent import end_with_parent
from router.endpoints.resp.readers.reader_process import ReaderProcess, ReaderTask
from router.endpoints.resp.server.sockets import RespSettings, tls_context

__all__ = ["main"]


async def _run(said: dict[str, Any]) -> None:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def asked() -> None:
        if not stop.done():
            stop.set_result(None)

    loop.add_signal_handler(signal.SIGTERM, asked)
    certificate, key = said["tls_certificate"], said["tls_key"]
    tls = tls_context(
        RespSettings(tls_certificate=Path(certificate) if certificate else None, tls_key=Path(key) if key else None)
    )
    numbers = (said[name] for name in ("number", "readers", "stall_s", "clients_bytes", "handshake_s", "slow_s"))
    task = ReaderTask(Path(said["folder"]), *numbers)
    listening = socket.socket(fileno=said["socket"])
    process = await ReaderProcess.open(task, listening, tls=tls, write=_write_to_server)
    quick_switching()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.set_blocking(sys.stdout.fileno(), False)
    await stop
    await process.close()


def _write_to_server(line: bytes) -> None:
    """A line that the server reads, unless it has too many of them; a pipe takes so short a one as a whole."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), line)


def main() -> None:
    """Serve until SIGTERM."""
    end_with_parent()
    said = json.loads(sys.stdin.readline())
    set_up_logging(said["log_level"], said["log_format"])
    # Ctrl-C in a terminal is the server's, which then ends its readers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run_role(_run(said))


if __name__ == "__main__":
    main()
