"""Which log the databases of a test run lie on: their own folder's, or a Kafka broker (`pytest --log kafka`).

A database in a folder gets a namespace of its own on the broker, always the same one for the same folder, so that a
test which opens a folder again finds its data again.
"""

from __future__ import annotations

from hashlib import blake2s
from pathlib import Path
from typing import Any

import pytest

import duramen.server.roles.all_in_one
import duramen.server.wiring.single_machine

__all__ = ["log_of_the_databases", "url_of"]

_bootstrap: list[str] = []


def url_of(data: Path) -> str | None:
    """The URL of the log of the database in `data`; None: its own folder."""
    if not _bootstrap:
        return None
    return f"kafka://{_bootstrap[0]}/d{blake2s(str(data.absolute()).encode(), digest_size=6).hexdigest()}"


@pytest.fixture(scope="session", autouse=True)
def log_of_the_databases(request: pytest.FixtureRequest) -> Any:
    """With `--log kafka`, every database that is opened in this process has its log on a real broker."""
    if request.config.getoption("--log") != "kafka":
        yield
        return
    _bootstrap.append(request.getfixturevalue("kafka"))
    opened = duramen.server.wiring.single_machine.open_single_machine

    async def open_single_machine(data: Path, *, log_url: str | None = None, **more: Any) -> Any:
        return await opened(data, log_url=log_url or url_of(data), **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duramen.server.wiring.single_machine, "open_single_machine", open_single_machine)
        patch.setattr(duramen.server.roles.all_in_one, "open_single_machine", open_single_machine)
        yield
    _bootstrap.clear()
