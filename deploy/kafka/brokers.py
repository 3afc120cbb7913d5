"""The processes of a small Kafka: started, killed, paused and ended from Python."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final

from deploy.kafka.ports import HOST, ReservedPorts, is_free
from deploy.kafka.properties import Listeners, server_properties

__all__ = ["LIBS", "BrokerFailed", "Brokers", "missing"]

LIBS: Final = Path(__file__).resolve().parents[2] / ".kafka" / "libs"

_JAVA: Final = [
    "java",
    # A tenth of what Kafka's own script takes; enough for what one machine's tests hold at once.
    "-Xmx384m",
    # Quick to start and few threads: what lives for minutes on two cores earns nothing from more.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    # A broker without memory limps and answers some; dead, it is seen.
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
    "-Dorg.slf4j.simpleLogger.logFile=System.out",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-cp",
    f"{LIBS}/*",
]
# What a broker logs once it is in the cluster, unfenced, and takes requests.
_READY: Final = b"Kafka Server started"
_POLL_S: Final = 0.05
_TAIL_BYTES: Final = 3000


class BrokerFailed(RuntimeError):
    """A broker ended by itself, or did not answer in time. The message ends with the end of its log."""


def missing() -> str | None:
    """What this machine lacks to run brokers, as a sentence with the next step; None where nothing does."""
    needs = "apt-get install openjdk-17-jre-headless maven, then make test-kafka"
    if shutil.which("java") is None:
        return f"needs Java 17 and Maven: {needs}"
    if not LIBS.is_dir():
        return f"needs Kafka's jars in .kafka/libs, which deploy/kafka/fetch gets with Java 17 and Maven: {needs}"
    return None


class Brokers:
    """A cluster of `count` brokers, numbered from 1, whose files are in the folder `data`.

    `port` is that of the first broker; the other brokers follow and then the controllers. With 0 they are free ones.
    `settings` are added to every broker's server.properties and win over ours. A folder that has been used before is
    started with what is in it. Nothing runs before `start`; the calls block, and are meant for one thread at a time.
    """

    def __init__(self, count: int, data: Path, *, port: int = 0, settings: Mapping[str, str] | None = None) -> None:
        self.data = data.resolve()
        self._count = count
        self._first_port = port
        self._settings = dict(settings or {})
        self._reserved: ReservedPorts | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._listeners: list[Listeners] = []
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: set[int] = set()
        # Where each log was when its broker was started last: the lines before are another process's.
        self._logged: dict[int, int] = {}

    def __repr__(self) -> str:
        return f"Brokers({self._count} at {self.bootstrap}, logs in {self.data})"

    def __enter__(self) -> Brokers:
        self.start()
        try:
            self.wait_ready()
        except BaseException:
            self.stop(grace_s=0)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- what is there

    @property
    def numbers(self) -> list[int]:
        return list(range(1, self._count + 1))

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, running or not, as Kafka's clients take them."""
        return ",".join(self.address(number) for number in self.numbers) if self._listeners else ""

    def address(self, number: int) -> str:
        return f"{HOST}:{self._listeners[number - 1].broker}"

    def pid(self, number: int) -> int:
        return self._processes[number].pid

    def log_file(self, number: int) -> Path:
        return self.data / f"broker-{number}.log"

    @property
    def running(self) -> list[int]:
        """The brokers that run and are not paused."""
        return [
            number
            for number, process in sorted(self._processes.items())
            if process.poll() is None and number not in self._paused
        ]

    # --- the life of the cluster

    def start(self) -> None:
        """Format what is new and start every broker. They answer after `wait_ready`.

        Raises `BrokerFailed` where this machine lacks something, a port is taken, or Kafka refuses the settings.
        """
        if reason := missing():
            raise BrokerFailed(f"no broker can be started: {reason}")
        try:
            self._listeners = self._choose_ports()
            self.data.mkdir(parents=True, exist_ok=True)
            self._format()
            # In its own session, so that a Ctrl-C at the terminal leaves it to do its work.
            guard = [sys.executable, str(Path(__file__).with_name("guard.py"))]
            self._guard = subprocess.Popen(guard, stdin=subprocess.PIPE, start_new_session=True)
            for number in self.numbers:
                self._launch(number)
        except BaseException:
            self.stop(grace_s=0)
            raise

    def wait_ready(self, *, deadline_s: float = 60.0) -> None:
        """Return when every broker that was started, and not paused or killed since, takes requests."""
        end = time.monotonic() + deadline_s
        for number in sorted(self._processes.keys() - self._paused):
            while not self._is_ready(number):
                if self._processes[number].poll() is not None:
                    raise self._failed(number, f"ended with status {self._processes[number].returncode}")
                if time.monotonic() > end:
                    raise self._failed(number, f"was not ready after {deadline_s:g} s")
                time.sleep(_POLL_S)

    def stop(self, *, grace_s: float = 10.0) -> None:
        """End every broker: asked to, and killed if it still runs after `grace_s`; at once with 0."""
        if grace_s:
            for number in list(self._paused):
                self.resume(number)
            for process in self._processes.values():
                process.terminate()
        end = time.monotonic() + grace_s
        for process in self._processes.values():
            try:
                process.wait(timeout=max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        self._paused.clear()
        if self._guard is not None:
            self._guard.communicate()
            self._guard = None
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    # --- faults

    def kill(self, number: int) -> None:
        """SIGKILL, paused or not; it is gone when this returns."""
        process = self._processes.pop(number)
        process.kill()
        process.wait()
        self._paused.discard(number)

    def pause(self, number: int) -> None:
        """SIGSTOP: it keeps its connections and answers nobody. It is stopped when this returns."""
        pid = self.pid(number)
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        self._paused.add(number)

    def resume(self, number: int) -> None:
        """SIGCONT: it goes on, and learns what it missed."""
        os.kill(self.pid(number), signal.SIGCONT)
        self._paused.discard(number)

    def restart(self, number: int) -> None:
        """Start a broker on its folder and ports again; one that still runs is killed first. See `wait_ready`."""
        if number in self._processes:
            self.kill(number)
        self._launch(number)

    # --- who leads

    def leader_of(self, topic: str, partition: int) -> int | None:
        """The broker that leads a partition, as the running brokers know; None where there is no leader.

        Needs confluent-kafka. Raises its `KafkaException` where no broker answers in five seconds, and `KeyError` for
        what does not exist.
        """
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": ",".join(map(self.address, self.running)), "log_level": 0})
        partitions = client.list_topics(topic, timeout=5).topics[topic].partitions
        leader = int(partitions[partition].leader)
        return leader if leader > 0 else None

    def controller(self) -> int | None:
        """The active controller, as the newest election in the running brokers' files says; None during one.

        Clients cannot ask for it: with KRaft the "controller" in a broker's answer is any broker.
        """
        states = [
            json.loads(file.read_text())
            for number in self.running
            if (file := self._folder(number) / "__cluster_metadata-0" / "quorum-state").exists()
        ]
        newest = max(states, key=lambda state: (state["leaderEpoch"], state["leaderId"]), default=None)
        return newest["leaderId"] if newest is not None and newest["leaderId"] in self.running else None

    # --- inside

    def _folder(self, number: int) -> Path:
        return self.data / f"broker-{number}"

    def _properties(self, number: int) -> Path:
        return self.data / f"broker-{number}.properties"

    def _choose_ports(self) -> list[Listeners]:
        wanted = 2 * self._count
        if self._first_port:
            ports = list(range(self._first_port, self._first_port + wanted))
            if taken := [port for port in ports if not is_free(port)]:
                raise BrokerFailed(f"ports {ports[0]} to {ports[-1]} are needed and taken are {taken}: choose others")
        else:
            self._reserved = ReservedPorts(wanted)
            ports = self._reserved.numbers
        return [Listeners(*pair) for pair in zip(ports[: self._count], ports[self._count :], strict=True)]

    def _format(self) -> None:
        """Write the settings of every broker, and give the folders of a new cluster an identity."""
        new = [number for number in self.numbers if not (self._folder(number) / "meta.properties").exists()]
        if new and len(new) != self._count:
            raise BrokerFailed(f"{self.data} has some of {self._count} brokers and lacks {new}: choose another folder")
        # Kafka's identifiers must not begin with a dash.
        cluster = "k" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        for number in self.numbers:
            text = server_properties(number, self._listeners, self._folder(number), self._settings)
            self._properties(number).write_text(text)
        for number in new:
            command = [*_JAVA, "kafka.tools.StorageTool", "format", "--cluster-id", cluster]
            command += ["--config", str(self._properties(number))]
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode != 0:
                raise BrokerFailed(f"Kafka does not format {self._folder(number)}:\n{done.stdout}{done.stderr}")

    def _launch(self, number: int) -> None:
        assert self._guard is not None, "start() comes first"
        assert self._guard.stdin is not None
        with self.log_file(number).open("ab") as log:
            self._logged[number] = log.tell()
            process = subprocess.Popen(
                [*_JAVA, "kafka.Kafka", str(self._properties(number))],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard.stdin.write(b"%d\n" % process.pid)
        self._guard.stdin.flush()
        self._processes[number] = process

    def _is_ready(self, number: int) -> bool:
        with self.log_file(number).open("rb") as log:
            log.seek(self._logged[number])
            return _READY in log.read()

    def _failed(self, number: int, what: str) -> BrokerFailed:
        tail = self.log_file(number).read_bytes()[self._logged[number] :][-_TAIL_BYTES:].decode(errors="replace")
        return BrokerFailed(f"broker {number} {what}; the end of {self.log_file(number)}:\n{tail}")
