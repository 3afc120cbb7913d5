"""What a test lets fail: links of the network, processes, and the log's disk. Every fault happens at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from duramen.testing.cluster.cluster_processes import ClusterProcesses
from duramen.testing.machine.disk_faults import DiskFaults
from duramen.testing.machine.simulated_network import Network
from duramen.testing.running.errors import UnknownProcess

__all__ = ["ClusterFaults"]

_LATE_S_MAX: Final = 3600.0
"""What is later than an hour is cut."""

_CLOCK_S_MAX: Final = 10 * 365 * 86_400.0
"""Ten years, so that no date leaves what a timestamp holds."""


class ClusterFaults:
    """`cluster.faults`. Its processes are `n1`, `n2`, …, `router`, `log`, `client` (the test itself), and what
    `cluster.start` has begun, also where it has ended since.

    No call waits: a fault has happened when it returns. Each raises `UnknownProcess` for a name that is not there.
    """

    def __init__(
        self,
        processes: ClusterProcesses,
        network: Network,
        programs: Callable[[], Collection[str]],
        check_open: Callable[[], object],
    ) -> None:
        """`programs`: the names of what else is on the network. `check_open`: raises `ClusterEnded`."""
        self._processes, self._network, self._programs, self._check_open = processes, network, programs, check_open
        self._disk = DiskFaults(processes.machine.disk, processes.machine.story, processes.chance)
        self._apart: dict[str, str] = {}
        """Processes that nobody reaches, and why; who comes later does not reach them either."""

    # --- the network

    def cut(self, one: str, other: str | None = None) -> None:
        """Nothing passes between two processes, in either direction; `other` None: between `one` and everybody.

        Connections stay for some seconds, as TCP's do, until gRPC's pings notice it. What is sent meanwhile waits, and
        arrives after `heal`, if the connection is still there.
        """
        self._check(one, other)
        if other is None:
            self._set_apart(one, "cut off")
            return
        self._tell(f"cut {one} {other}")
        self._network.cut(one, other)
        self._network.cut(other, one)

    def cut_one_way(self, source: str, target: str) -> None:
        """Nothing that `source` sends reaches `target`; what `target` sends arrives."""
        self._check(source, target)
        self._tell(f"cut {source} -> {target}")
        self._network.cut(source, target)

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Undo cuts, pauses, copies and lateness: of everything, of the links of `one`, or between two processes."""
        self._check(*(each for each in (one, other) if each is not None))
        self._tell(f"heal {one or 'everything'} {other or ''}".rstrip())
        if one is None:
            self._apart.clear()
        elif other is None:
            self._apart.pop(one, None)
        asked = {each for each in (one, other) if each is not None}
        for (source, target), link in list(self._network.links.items()):
            ends = {source, target}
            if not asked <= ends or ends.isdisjoint(self._processes.names):
                continue
            link.late_s = link.copies_s = 0.0
            if link.cut and ends.isdisjoint(self._apart):
                self._network.heal(source, target)

    def late(self, one: str, seconds: float, other: str | None = None) -> None:
        """Each message between two processes takes up to so much longer, in either direction; 0: no longer.

        `other` None: between `one` and everybody.
        """
        self._check(one, other)
        _check_seconds(seconds)
        self._tell(f"late {one} {other or 'everybody'} {seconds:g} s")
        for each in self._names() if other is None else (other,):
            if each != one:
                self._network.link(one, each).late_s = self._network.link(each, one).late_s = seconds

    def behind(self, node: str, seconds: float) -> None:
        """A late replica: what the log sends reaches `node` up to so much later, and the node answers at once from what
        it has. 0: no longer.
        """
        self._check_node(node)
        _check_seconds(seconds)
        self._tell(f"behind {node} {seconds:g} s")
        self._network.link(self._processes.log_name, node).late_s = seconds

    def reset(self, one: str, other: str) -> None:
        """Every connection between two processes is gone; they may connect again at once."""
        self._check(one, other)
        self._tell(f"reset {one} {other}")
        self._network.reset(one, other)

    def lose_next_message(self, source: str, target: str) -> None:
        """The next message from `source` to `target` is lost, and the connection with it.

        `lose_next_message("log", "client")`: the test's next write is in the log, and its reply is not heard.
        """
        self._check(source, target)
        self._tell(f"lose the next message {source} -> {target}")
        self._network.link(source, target).reset_next = True

    def copy_requests(self, source: str, target: str, seconds: float) -> None:
        """Some requests of `source` arrive at `target` a second time, up to so much later, and nobody hears the reply.

        A write that was answered has one effect nevertheless. A request whose reply refuses anything, even a part, is
        not copied: its caller knows that nothing was done. 0: no more of them; those under way still arrive.
        """
        self._check(source, target)
        _check_seconds(seconds)
        self._tell(f"copy requests {source} -> {target}, {seconds:g} s late")
        self._network.link(source, target).copies_s = seconds

    # --- processes

    def kill(self, name: str, *, keep_indexes: bool = True) -> None:
        """Kill a process of the cluster, as `kill -9` does; it stays down until `start`.

        `keep_indexes` False: the machine of the node is lost as well, and its replicas are built anew. Raises
        `UnknownProcess` where it is down.
        """
        process = self._process(name)
        if not keep_indexes:
            self._check_node(name)
        self._tell(f"kill {name}" + ("" if keep_indexes else ", its indexes are lost"))
        if not process.end(politely=False, down_s=None):
            raise UnknownProcess(f"{name} is down: start it before it is killed again")
        self._network.die(name)
        if not keep_indexes:
            self._processes.loses_indexes[name] = True

    def stop(self, name: str) -> None:
        """Stop a process of the cluster as an operator stops it; it stays down until `start`."""
        self._tell(f"stop {name}")
        if not self._process(name).end(politely=True, down_s=None):
            raise UnknownProcess(f"{name} is down")

    def start(self, name: str) -> None:
        """Start a process that was killed or stopped; `await cluster.level()` waits until it is there again."""
        process = self._process(name)
        if not process.stays_down:
            raise UnknownProcess(f"{name} is not down: only what was killed or stopped is started")
        self._tell(f"start {name}")
        process.begin_again()

    def restart(self, name: str) -> None:
        """Kill a process and start it at once."""
        self.kill(name)
        self.start(name)

    def pause(self, name: str) -> None:
        """Nobody hears of a process until `resume` or `heal`, and its connections stay: a long pause of its machine.

        What it has begun by its own clock goes on.
        """
        self._process(name)
        self._set_apart(name, "paused")

    def resume(self, name: str) -> None:
        """Undo `pause`."""
        self.heal(name)

    def set_clock(self, name: str, seconds: float) -> None:
        """Set the wall clock of a process of the cluster forward by so many seconds, or back where they are negative.

        Expiries and the retention by age go by the log's clock; what other processes have is for their own plans.
        """
        self._process(name)
        if not abs(seconds) <= _CLOCK_S_MAX:
            raise ValueError(f"give seconds from -{_CLOCK_S_MAX:g} to {_CLOCK_S_MAX:g}, not {seconds!r}")
        self._tell(f"the clock of {name} is set by {seconds:+g} s")
        self._processes.clock_of(name).step(seconds)

    # --- the log's disk

    def disk_full(self, free_bytes: int = 0) -> None:
        """The log's disk has no more room than this until `disk_has_room`."""
        self._check_open()
        self._disk.disk_full(free_bytes)

    def disk_has_room(self) -> None:
        """Undo `disk_full`."""
        self._check_open()
        self._disk.disk_has_room()

    def fail_next_sync(self) -> None:
        """The next sync of the log's disk fails; the log takes no writes after that until `restart("log")`."""
        self._check_open()
        self._disk.fail_next_sync()

    def fail_next_write(self) -> None:
        """The next change of the log's disk but a sync fails: a write, a new file, a rename."""
        self._check_open()
        self._disk.fail_next_write()

    def lose_power(self, *, after_changes: int | None = None) -> None:
        """The log's machine loses power: what was not synced is lost, sector by sector. It stays down until
        `start("log")`.

        `after_changes`: in the middle of a change of its disk, after so many from now on; None: now.
        """
        self._check_open()
        if self._processes.log is None or self._disk.is_dead:
            raise UnknownProcess(f"{self._processes.log_name} is down")
        self._disk.lose_power(after_changes=after_changes)

    # --- words

    def joined(self, name: str) -> None:
        """A process is new on the network: it does not reach those whom nobody reaches."""
        for other in self._apart:
            self._network.cut(name, other)
            self._network.cut(other, name)

    def going_on(self) -> list[str]:
        """The faults that go on, in words."""
        words = [f"{name} is {why}" for name, why in self._apart.items()]
        words += [f"{name} is down" for name in self._processes.names if self._processes.by_name[name].stays_down]
        for (source, target), link in self._network.links.items():
            if link.cut and {source, target}.isdisjoint(self._apart):
                words.append(f"{source} does not reach {target}")
            if link.late_s:
                words.append(f"{source} -> {target} is up to {link.late_s:g} s late")
        if self._disk.is_full:
            words.append("the log's disk is full")
        return words

    def _set_apart(self, name: str, why: str) -> None:
        self._tell(f"{why}: {name}")
        self._apart[name] = why
        for other in self._names():
            if other != name:
                self._network.cut(name, other)
                self._network.cut(other, name)

    def _tell(self, what: str) -> None:
        self._processes.machine.story.tell("fault", what)

    def _names(self) -> list[str]:
        return [*self._processes.names, *self._programs()]

    def _check(self, *names: str | None) -> None:
        self._check_open()
        known = self._names()
        for name in names:
            if name is not None and name not in known:
                raise UnknownProcess(f"there is no process {name!r} here: {', '.join(known)}")
        if len(names) == 2 and names[0] == names[1]:
            raise UnknownProcess(f"a process has no link to itself: {names[0]}")

    def _check_node(self, name: str) -> None:
        self._check_open()
        if name not in self._processes.node_names:
            raise UnknownProcess(f"{name!r} is no node of this cluster: {', '.join(self._processes.node_names)}")

    def _process(self, name: str) -> Any:
        self._check_open()
        if name not in self._processes.by_name:
            raise UnknownProcess(
                f"{name!r} is no process of the cluster: {', '.join(self._processes.names)}; a program of the test "
                "ends by the `kill` of what `start` returned"
            )
        return self._processes.by_name[name]


def _check_seconds(seconds: float) -> None:
    if not 0 <= seconds <= _LATE_S_MAX:
        raise ValueError(f"give seconds from 0 to {_LATE_S_MAX:g}, not {seconds!r}; what is later is cut")
