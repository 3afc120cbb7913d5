"""What `duramen up` says of its server's life."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from duramen.cli.terminal.output import say, say_end, say_json
from duramen.server.roles.all_in_one import SingleServer
from log_tier.privacy.masked_url import mask_url

__all__ = ["Announcer"]

LISTED_MAX: Final = 50
"""Of tables, and of what the recovery found. A pipe holds 64 KiB: a longer line would keep the server from answering
until somebody reads it."""


class Announcer:
    """Says that the server began and ended."""

    def __init__(self, data: Path, log: str | None, host: str, json: bool, certs: Path | None = None) -> None:
        self._data, self._host, self._json = data.absolute(), host, json
        self._certs = None if certs is None else certs.absolute()
        # Its query may hold a password, and says nothing of where the log is.
        self._log = mask_url(log).partition("?")[0] if log is not None else None

    def started(self, server: SingleServer) -> None:
        """What was found at the start, and how to connect."""
        tables = sorted(server.data_plane.catalog.map.tables.values(), key=lambda table: table.name)
        users = server.data_plane.catalog.map.trust.users
        recovery: Any = getattr(server.data_plane.log, "recovery", None)
        cuts = [str(cut) for cut in recovery.cuts] if recovery else []
        damages = [damage.message for damage in recovery.damages] if recovery else []
        notes = list(recovery.notes) if recovery else []
        if self._json:
            say_json(
                {
                    "event": "started",
                    "host": self._host,
                    "port": server.port,
                    **({"resp_port": server.resp_port} if server.resp_port else {}),
                    **({"http_port": server.http_port} if server.http_port else {}),
                    **({"peer_port": server.shell.peer_port} if server.shell.peer_port is not None else {}),
                    "pid": os.getpid(),
                    **({"certs": str(self._certs)} if self._certs is not None else {}),
                    "data": str(self._data),
                    "users": len(users),
                    "first_user": server.first_user or None,
                    "log": self._log,
                    "table_count": len(tables),
                    "tables": [{"table": t.name, "id": t.id, "partitions": t.partitions} for t in tables[:LISTED_MAX]],
                    "recovery": {"cuts": _listed(cuts), "damages": _listed(damages), "notes": _listed(notes)},
                },
                flush=True,
            )
            return
        at = f"{'localhost' if self._host in ('127.0.0.1', '0.0.0.0') else self._host}:{server.port}"
        names = ", ".join(f"{t.name} ({t.partitions})" for t in tables[:8]) + (" …" if len(tables) > 8 else "")
        say(f"Duramen is up on {self._host}:{server.port}")
        say(f"  data      {self._data}")
        if self._log is not None:
            say(f"  log       {self._log}")
        say(f"  tables    {names or 'none yet: duramen table create NAME'}")
        found = _listed([*cuts, *notes])
        say("  recovery  " + ("\n            ".join(found) or "nothing to recover"))
        if users or server.first_user:
            made = {"made": ": the first one was made", "there": ", so --first-user did nothing"}
            say(f"  users     {len(users)}{made.get(server.first_user, '')}")
        for damage in _listed(damages):
            say(f"  DAMAGE    {damage}")
        if self._certs is None:
            say(f'  connect   duramen.connect("{at}"), or any command with --at {at}')
        else:
            ca = self._certs / "ca.crt"
            say(f'  connect   duramen.connect("duramens://{at}", ca="{ca}"), or any command with')
            say(f"            --at duramens://{at} --ca {ca}")
        if server.resp_port:
            tls = "" if self._certs is None else f"--tls --cacert {self._certs / 'ca.crt'} "
            say(f"  redis     redis-cli {tls}-p {server.resp_port}, or any client of Redis")
        if server.http_port:
            scheme = "http" if self._certs is None else "https"
            console = f"{scheme}://{at.rpartition(':')[0]}:{server.http_port}/"
            say(f"  console   {console}, and /status, /metrics, /readyz, /livez")
        if server.shell.peer_port is not None:
            say(f"  peers     port {server.shell.peer_port}, with a certificate")
        say("  stop      Ctrl-C, or SIGTERM")
        sys.stdout.flush()

    def stopping(self, signal: str) -> None:
        """The signal that ends the server."""
        say_end({"event": "stopping", "signal": signal}, as_json=self._json)

    def stopped(self) -> None:
        """The server has ended."""
        say_end({"event": "stopped"}, as_json=self._json)


def _listed(found: Sequence[str]) -> list[str]:
    """The first of them, and how many more there are."""
    left = len(found) - LISTED_MAX
    return [*found[:LISTED_MAX], *([f"and {left} more: duramen log verify lists what is damaged"] if left > 0 else [])]
