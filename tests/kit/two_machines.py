"""Two machines on this one: two network namespaces, joined by a cable (a pair of virtual Ethernet devices).

What runs in one of them reaches the other one by the cable, and nothing else: neither the loopback of this machine nor
its network. A firewall is a rule of routing (`ip rule … prohibit`), which needs no more than `ip` itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from types import TracebackType
from typing import Final, Self

from kit.deadlines import patience_s

__all__ = ["TwoMachines", "missing"]

# A range for tests of networks (RFC 2544); it exists within the two namespaces only.
_SERVERS: Final = "198.18.77.1"
_CLIENTS: Final = "198.18.77.2"

_COMMAND_S: Final = 20.0


class TwoMachines:
    """`servers` and `clients`, from `__enter__` to `__exit__`; what still runs in them then is not ended."""

    def __init__(self) -> None:
        name = uuid.uuid4().hex[:6]
        self.servers, self.clients = f"duramen-{name}-s", f"duramen-{name}-c"
        self.address = _SERVERS
        """The servers' address, on the cable."""

    def __enter__(self) -> Self:
        try:
            for machine in (self.servers, self.clients):
                _ip("netns", "add", machine)
            cable = ("link", "add", "cable", "netns", self.servers, "type", "veth", "peer", "name", "cable")
            _ip(*cable, "netns", self.clients)
            for machine, address in ((self.servers, _SERVERS), (self.clients, _CLIENTS)):
                _ip("-n", machine, "address", "add", f"{address}/30", "dev", "cable")
                for device in ("lo", "cable"):
                    _ip("-n", machine, "link", "set", device, "up")
            # Rules before the one that delivers to this machine's own addresses.
            _ip("-n", self.servers, "rule", "add", "lookup", "local", "pref", "100")
            _ip("-n", self.servers, "rule", "delete", "lookup", "local", "pref", "0")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for machine in (self.servers, self.clients):
            subprocess.run(["ip", "netns", "delete", machine], capture_output=True, check=False)

    def within(self, machine: str) -> list[str]:
        """The beginning of a command that runs on a machine."""
        return ["ip", "netns", "exec", machine]

    def forbid(self, port: int) -> None:
        """What comes to the servers by the cable does not reach this TCP port; they reach it themselves."""
        rule = ("iif", "cable", "ipproto", "tcp", "dport", str(port))
        _ip("-n", self.servers, "rule", "add", *rule, "prohibit", "pref", "10")


def _ip(*arguments: str) -> None:
    done = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, timeout=patience_s(_COMMAND_S), check=False
    )
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def missing() -> str | None:
    """What this machine lacks or forbids, as a sentence; None where two machines can be made."""
    if shutil.which("ip") is None:
        return "there is no `ip` here: apt-get install iproute2"
    if os.geteuid() != 0:
        return "network namespaces are for root"
    try:
        with TwoMachines() as machines:
            machines.forbid(1)
    except OSError as error:
        return f"network namespaces are not permitted here: {error}"
    return None
