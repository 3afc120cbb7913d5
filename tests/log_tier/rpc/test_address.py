"""An address is checked before anything is sent to it: gRPC itself takes nearly every text for one."""

from __future__ import annotations

import pytest

import duramen
from duramen import aio
from log_tier.model.errors import InvalidRequest
from log_tier.open import open_log
from log_tier.rpc.address import checked_address, is_loopback

WRONG = [
    "localhost",
    ":7070",
    "localhost:",
    "localhost:http",
    "localhost:0",
    "localhost:65536",
    "host:-1",
    "a b:1",
    "a/b:7",
]


@pytest.mark.parametrize("address", ["localhost:7070", "127.0.0.1:1", "[::1]:65535", "db-1.example.org:7070"])
def test_addresses(address: str) -> None:
    assert checked_address(address) == address


@pytest.mark.parametrize("address", [*WRONG, "http://localhost:7070", "grpc://localhost:7070"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidRequest, match=r"is no address: give HOST:PORT, like localhost:7070"):
        checked_address(address)


@pytest.mark.parametrize("target", ["localhost", "localhost:99999", "http://localhost:7070", ["localhost:7070", "b"]])
async def test_a_client_refuses_it_at_once(target: str | list[str]) -> None:
    """gRPC adds port 443 to the first, takes the second modulo 65,536, and asks a name server for the third."""
    with pytest.raises(duramen.InvalidRequest, match="is no address"):
        await aio.connect(target)


async def test_so_does_the_url_of_a_log() -> None:
    with pytest.raises(InvalidRequest, match="is no address"):
        await open_log("grpc://localhost")


def test_what_only_this_machine_reaches() -> None:
    hosts = ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost", "0.0.0.0", "", "::", "10.0.0.1", "db1"]
    assert [host for host in hosts if is_loopback(host)] == ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"]
