"""What a process of one role says when it began and when it ended: for people, or a line of JSON."""

from __future__ import annotations

import os
import sys
from typing import Any

from duramen.cli.terminal.output import say, say_end, say_json

__all__ = ["RoleAnnouncer"]


class RoleAnnouncer:
    """Says that a role began and ended."""

    def __init__(self, role: str, name: str, host: str, as_json: bool, **fields: str) -> None:
        self._role, self._name, self._host, self._as_json, self._fields = role, name, host, as_json, fields

    def started(self, running: Any) -> None:
        peer_port = running.shell.peer_port
        if self._as_json:
            say_json(
                {
                    "event": "started",
                    "role": self._role,
                    "name": self._name,
                    "host": self._host,
                    "port": running.port,
                    "pid": os.getpid(),
                    **({"resp_port": running.resp_port} if getattr(running, "resp_port", 0) else {}),
                    **({"http_port": running.http_port} if getattr(running, "http_port", 0) else {}),
                    **({"peer_port": peer_port} if peer_port is not None else {}),
                    **({"first_user": running.first_user} if getattr(running, "first_user", "") else {}),
                    **self._fields,
                },
                flush=True,
            )
            return
        who = self._role if self._name == self._role else f"{self._role} {self._name}"
        say(f"{who} is up on {self._host}:{running.port}")
        if getattr(running, "resp_port", 0):
            say(f"  redis     redis-cli -p {running.resp_port}")
        if getattr(running, "http_port", 0):
            say(f"  console   port {running.http_port}, and /status, /metrics, /readyz, /livez")
        if peer_port is not None:
            say(f"  peers     port {peer_port}, with a certificate")
        for key, value in self._fields.items():
            say(f"  {key:<9} {value}")
        say("  stop      Ctrl-C, or SIGTERM")
        sys.stdout.flush()

    def stopping(self, reason: str) -> None:
        say_end({"event": "stopping", "signal": reason}, as_json=self._as_json)

    def stopped(self) -> None:
        say_end({"event": "stopped"}, as_json=self._as_json)
