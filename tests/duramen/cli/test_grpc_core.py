"""A server's gRPC core has the listener that the command asks for, and so fewer threads that hand calls over."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

# A core writes of a name that it does not know to its standard error, if it may write at all.
_SERVER: Final = """
import asyncio, os
from duramen.cli.app import run_app

run_app(["--version"])
OTHER
os.environ["GRPC_VERBOSITY"] = "ERROR"
import grpc.aio

async def serve():
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        await channel.channel_ready()
    await server.stop(None)

asyncio.run(serve())
print(os.environ["GRPC_EXPERIMENTS"])
"""


def _served(other: str = "", **environment: str) -> tuple[str, str]:
    """What `GRPC_EXPERIMENTS` is in a process that served, and what its core complained of."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_")}
    program = _SERVER.replace("OTHER", other)
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**inherited, **environment}, capture_output=True, text=True, check=True
    )
    return ran.stdout.splitlines()[-1], ran.stderr


def test_the_core_that_is_installed_knows_the_listener() -> None:
    asked, complaints = _served()
    assert asked == "-event_engine_listener"
    assert "Unknown experiment" not in complaints


def test_a_command_imports_no_grpc_before_it_has_said_how_its_core_listens() -> None:
    """So a name that the core does not know is complained of, and the test above could have failed."""
    _, complaints = _served('os.environ["GRPC_EXPERIMENTS"] = "-nonsense"')
    assert "Unknown experiment" in complaints


def test_what_an_operator_has_set_stays() -> None:
    asked, _ = _served(GRPC_EXPERIMENTS="event_engine_listener")
    assert asked == "event_engine_listener"
