"""Spark, and a server or a cluster with TLS and users: who may, may; who may not hears why; no plan holds a secret."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from kit.certs_at_hand import CertsAtHand
from kit.client.server_process import ServerProcess, run_duramen
from kit.cluster.up_cluster import UpCluster
from kit.deadlines import wait_until
from kit.spark.sparks import failure
from kit.spark.table_source import Source

import duramen
from duramen import Disconnected, DuramenError, HandshakeFailed, InvalidRequest, PermissionDenied, Unauthenticated
from duramen.blocking import Database
from spark_bulk.build.version_build import build_index
from spark_bulk.export import export_changes, export_table
from spark_bulk.repush import repush

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

GRANTS: Final = {
    "alice": ["read,write", "flights*"],
    "reader": ["read", "flights*"],
    "europe": ["read", "flights*", "--key", "eu:"],
}
NOBODY: Final = ("europe", "stranger")


class SecuredServer(NamedTuple):
    """A server or a cluster's router with TLS, and a token file for each of its users."""

    port: int
    certs: CertsAtHand
    folder: Path
    numbers: Iterator[int]

    @property
    def at(self) -> str:
        return f"duramens://localhost:{self.port}"

    def file_of(self, user: str) -> str:
        return str(self.folder / f"{user}.token")

    def way_of(self, user: str) -> dict[str, Any]:
        """The options of Spark's that a user needs."""
        return {"ca": str(self.certs.ca), "token_file": self.file_of(user)}

    def run(self, *arguments: str) -> None:
        done = run_duramen("--token-file", self.file_of("admin"), *arguments, "--ca", str(self.certs.ca), at=self.at)
        assert done.returncode == 0, (arguments, done.stderr)

    def audit(self, user: str) -> list[dict[str, Any]]:
        """The rows of a user."""
        command = ["audit", "--user", user, "--json", "--ca", str(self.certs.ca)]
        done = run_duramen("--token-file", self.file_of("admin"), *command, at=self.at)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def connect(self, user: str) -> Database:
        return duramen.connect(self.at, ca=self.certs.ca, token_file=self.file_of(user))

    def new_table(self) -> str:
        """A table with a hundred keys."""
        name = f"flights{next(self.numbers)}"
        with self.connect("admin") as database:
            table = database.create_table(name, partitions=2)
            table.put_many([(b"%03d" % number, b"v%d" % number) for number in range(100)])
        return name


@pytest.fixture(scope="module", params=["server", pytest.param("cluster", marks=pytest.mark.embedded_log_only)])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredServer]:
    """One server, which has the log itself, and three nodes with a router, which passes on that of a log server."""
    folder = tmp_path_factory.mktemp("secured")
    certs = CertsAtHand(folder, hosts=("localhost", "127.0.0.1"))
    token = folder / "admin.token"
    process: ServerProcess | UpCluster
    if request.param == "server":
        arguments = ["--certs", str(certs.path), "--first-user", "admin", "--token-file", str(token)]
        process = ServerProcess(folder / "data", log=folder / "log", arguments=arguments)
        port = process.announcement["port"]
    else:
        process = UpCluster(folder, certs=certs.path, token_file=token)
        port = process.port
    try:
        made = SecuredServer(port, certs, folder, itertools.count())
        made.run("grant", "admin", "read,write", "*")
        made.run("grant", "admin", "read", "_duramen_audit")
        for user in ("alice", "reader", "europe", "stranger"):
            made.run("user", "add", user, "--token-file", made.file_of(user))
            if user in GRANTS:
                made.run("grant", user, *GRANTS[user])
        yield made
    finally:
        process.close()


@pytest.fixture
def name(secured: SecuredServer) -> str:
    return secured.new_table()


REFUSED_WORDS: Final = (
    "user europe may not call Log/Read",
    "what is missing is 'read {name}'",
    "takes 'read {name}' without a key prefix",
    "duramen scan {name} --prefix",
)


def refusals_of(secured: SecuredServer, user: str, table: str) -> int:
    """How often the audit says that the user was refused reading a table: all that was before this call."""
    with secured.connect(user) as database, pytest.raises(PermissionDenied):
        database.table(table).put(b"mark", b"1")
    found: list[dict[str, Any]] = []

    def has_the_mark() -> bool:
        found[:] = [row for row in secured.audit(user) if row["table"] == table and row["result"] == "refused"]
        return any(row["kind"] == "write" for row in found)

    wait_until(has_the_mark, "the audit has what was refused last")
    return sum(int(row["count"]) for row in found if row["kind"] != "write")


def source(spark: Any, secured: SecuredServer, table: str, user: str) -> Source:
    made = Source(spark, secured.at, table)
    made.place |= secured.way_of(user)
    return made


EXPECTED: Final = {b"%03d" % number: b"v%d" % number for number in range(100)}


def test_a_user_reads_and_writes_as_far_as_its_grants_go(spark: Any, secured: SecuredServer, name: str) -> None:
    assert source(spark, secured, name, "reader").rows() == EXPECTED
    assert len(source(spark, secured, name, "reader").changes()) == 100
    rows = spark.createDataFrame([(bytearray(b"new"), bytearray(b"1"))], "key BINARY, value BINARY")
    source(spark, secured, name, "alice").write(rows)
    assert source(spark, secured, name, "reader").rows() == {**EXPECTED, b"new": b"1"}
    said = failure(lambda: source(spark, secured, name, "reader").write(rows))
    assert "PermissionDenied" in said, said
    assert "what is missing is 'write" in said
    with secured.connect("reader") as database:
        assert database.table(name).get(b"new") == b"1"


@pytest.mark.parametrize("user", NOBODY)
def test_who_may_not_read_the_whole_table_reads_nothing_of_it(
    spark: Any, secured: SecuredServer, name: str, user: str
) -> None:
    """A key prefix is not enough: what Spark reads is the table's index, or its log."""
    for options in ({}, {"log": "true"}):
        # The schema of rows is read when a DataFrame is made, so it is refused there.
        said = failure(lambda options=options: source(spark, secured, name, user).read(**options).collect())  # type: ignore[misc]
        assert "PermissionDenied" in said, said
        assert f"{user} " in said
        assert "what is missing is 'read" in said


@pytest.mark.parametrize("options", [{}, {"log": "true"}], ids=["table", "log"])
def test_what_reads_for_who_may_read_a_prefix_is_refused_before_its_tasks(
    spark: Any, secured: SecuredServer, name: str, options: dict[str, str]
) -> None:
    said = failure(lambda: source(spark, secured, name, "europe").read(**options).collect())
    for words in REFUSED_WORDS:
        assert words.format(name=name) in said, said
    assert refusals_of(secured, "europe", name) == 1


@pytest.mark.parametrize("command", ["export", "export --changes", "repush"])
def test_a_command_of_who_may_read_a_prefix_is_refused_once(
    secured: SecuredServer, name: str, tmp_path: Path, command: str
) -> None:
    """Before Spark starts, in words that say what is missing, and what such a user can do, which it then can."""
    verb, *options = command.split()
    place = ["--url", str(tmp_path / "made")] if verb == "repush" else [str(tmp_path / "made")]
    way = ["--ca", str(secured.certs.ca)]
    user = ("--token-file", secured.file_of("europe"))
    done = run_duramen(*user, verb, name, *place, *options, *way, at=secured.at, timeout=300, fresh=True)
    assert done.returncode == 6, (done.stdout, done.stderr)
    said = " ".join(done.stderr.split())
    for words in REFUSED_WORDS:
        assert words.format(name=name) in said, said
    assert "a task of Spark's" not in said
    assert not (tmp_path / "made").exists()
    assert refusals_of(secured, "europe", name) == 1
    with secured.connect("admin") as database:
        database.table(name).put(b"eu:1", b"here")
    done = run_duramen(*user, "scan", name, "--prefix", "eu:", *way, at=secured.at)
    assert done.stdout.split() == ["eu:1", "here"], done.stderr


def test_jobs_of_a_user(spark: Any, secured: SecuredServer, name: str, tmp_path: Path) -> None:
    jobs: list[Callable[..., Any]] = [
        lambda **how: export_table(spark, url=str(tmp_path / "export"), **how).rows,
        lambda **how: export_changes(spark, url=str(tmp_path / "export"), **how).rows,
        lambda **how: repush(spark, url=(tmp_path / "repushed").as_uri(), **how).keys,
    ]
    for job in jobs:
        with pytest.raises(PermissionDenied, match=r"stranger.*what is missing is 'read"):
            job(at=secured.at, table=name, **secured.way_of("stranger"))
    assert [job(at=secured.at, table=name, **secured.way_of("reader")) for job in jobs] == [100, 0, 100]
    rows = spark.createDataFrame([("a", "1"), ("b", "2")], "k STRING, v STRING")
    how: dict[str, Any] = {"at": secured.at, "table": name, "key": "k", "value": "v", "url": f"file://{tmp_path}/built"}
    with pytest.raises(PermissionDenied, match="stranger"):
        build_index(rows, **how, **secured.way_of("stranger"))
    assert build_index(rows, **how, **secured.way_of("reader")).keys == 2


def test_commands_pass_their_user_on(secured: SecuredServer, name: str, tmp_path: Path) -> None:
    command = ["export", name, str(tmp_path / "export"), "--ca", str(secured.certs.ca), "--json"]
    done = run_duramen("--token-file", secured.file_of("reader"), *command, at=secured.at, timeout=300)
    assert (done.returncode, '"rows":100' in done.stdout.replace(" ", "")) == (0, True), (done.stdout, done.stderr)


def check_refused(kind: type[DuramenError], words: str, spark: Any, place: dict[str, str]) -> None:
    with pytest.raises(Exception, match=words) as found:  # Spark wraps what its driver was told
        spark.read.format("duramen").options(**place).load().collect()
    assert kind.__name__ in str(found.value) or isinstance(found.value, kind), found.value


def test_what_proves_nothing_is_refused(spark: Any, secured: SecuredServer, name: str, tmp_path: Path) -> None:
    ca = str(secured.certs.ca)
    place = {"at": secured.at, "table": name, "ca": ca}
    forged = tmp_path / "forged.token"
    forged.touch(0o600)
    forged.write_text(Path(secured.file_of("alice")).read_text()[:-12] + "00000_alice\n")
    check_refused(Unauthenticated, "token", spark, place)
    check_refused(InvalidRequest, "token", spark, {**place, "token_file": str(tmp_path / "none")})
    check_refused(HandshakeFailed, "not of the CA", spark, {**place, "ca": str(secured.certs.other_ca)})
    check_refused(Disconnected, "duramens://", spark, {"at": secured.at.removeprefix("duramens://"), "table": name})
    open_file = tmp_path / "open.token"
    open_file.write_text(Path(secured.file_of("alice")).read_text())
    open_file.chmod(0o644)
    check_refused(InvalidRequest, "0600|other users|chmod", spark, {**place, "token_file": str(open_file)})


def test_no_plan_holds_a_secret(spark: Any, secured: SecuredServer, name: str) -> None:
    secret = Path(secured.file_of("reader")).read_text().strip()
    frame = source(spark, secured, name, "reader").read()
    said = io.StringIO()
    with redirect_stdout(said):
        frame.explain(extended=True)
    shown = said.getvalue() + frame._jdf.queryExecution().toString() + frame.schema.json()
    assert frame.count() == 100
    shown += frame._jdf.queryExecution().executedPlan().toString()
    assert secret not in shown
    assert secret[:12] not in shown


def test_a_stream_ends_when_its_token_is_revoked(spark: Any, secured: SecuredServer, name: str, tmp_path: Path) -> None:
    file = secured.folder / "passing.token"
    secured.run("user", "add", "passing", "--token-file", str(file))
    secured.run("grant", "passing", "read", name)
    made = source(spark, secured, name, "passing")
    seen: list[int] = []
    query = (
        spark.readStream.format("duramen")
        .options(**made.place, log="true")
        .load()
        .writeStream.foreachBatch(lambda rows, _: seen.append(rows.count()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        with secured.connect("admin") as database:
            query.processAllAvailable()
            assert sum(seen) == 100
            secured.run("user", "remove", "passing")
            database.table(name).put(b"later", b"1")
        with pytest.raises(Exception, match="Unauthenticated"):
            query.processAllAvailable()
        assert sum(seen) == 100
    finally:
        query.stop()
