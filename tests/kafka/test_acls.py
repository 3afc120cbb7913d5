"""A broker with SASL_SSL and ACLs: what OPERATIONS says to allow is enough, and what is missing is named.

Every refusal is one typed error that comes soon. When the operator has mended its cause, the same database goes on.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AclPermissionType, AdminClient, NewTopic
from kit.deadlines import patience_s, until_true
from kit.kafka.kafka_brokers import skip_where_there_is_no_kafka
from kit.kafka.secured_broker import EXPIRED, PASSWORD, SecuredBroker, acl, documented_acls

import duramen.aio
from duramen.client.database import Database
from duramen.client.table import Table
from log_tier.kafka import KafkaLog
from log_tier.model.errors import AccessDenied, DuramenError, TableExists, WriteUnknown
from log_tier.model.identifiers import Offset, Partition
from log_tier.open import open_log

pytestmark = pytest.mark.kafka

WRONG: Final = "wrong-battery-2684"

REFUSED_WITHIN_S: Final = 20.0
"""How long an operator waits before they look for another cause."""

CALL_S: Final = 5.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    skip_where_there_is_no_kafka()
    with SecuredBroker(tmp_path_factory.mktemp("secured") / "broker") as made:
        yield made


@pytest.fixture
def namespace(broker: SecuredBroker) -> str:
    """A cluster's own prefix, with the ACLs of OPERATIONS."""
    name = f"t{uuid.uuid4().hex[:12]}"
    broker.allow(name)
    return name


@pytest.fixture
def open_database(broker: SecuredBroker, namespace: str, tmp_path: Path) -> Callable[..., Awaitable[Database]]:
    properties = broker.properties(tmp_path / "kafka.properties")

    async def opened(folder: str = "data") -> Database:
        return await duramen.aio.open(tmp_path / folder, log=broker.url(namespace, properties), timeout=60)

    return opened


Open = Callable[..., Awaitable[Database]]


@asynccontextmanager
async def orders_of(open_database: Open) -> AsyncIterator[tuple[Database, Table]]:
    """A database with a table that works."""
    async with await open_database() as database:
        table = await database.create_table("orders", partitions=1)
        await table.put(b"k", b"v", timeout=patience_s(CALL_S))
        yield database, table


async def denial_of(call: Callable[[], Awaitable[object]]) -> str:
    """The message of the refusal that comes soon; until then calls may still work, or not know."""
    found: list[AccessDenied] = []

    async def refused() -> bool:
        try:
            await call()
        except AccessDenied as error:
            found.append(error)
        except WriteUnknown:
            pass  # it was under way when the refusal began
        except DuramenError as error:
            if not error.retryable:
                raise
        return bool(found)

    began = time.monotonic()
    await until_true(refused)
    assert time.monotonic() - began < patience_s(REFUSED_WITHIN_S)
    assert not found[0].retryable
    return found[0].message


async def wait_works(call: Callable[[], Awaitable[object]]) -> None:
    """Without a restart."""

    async def works() -> bool:
        try:
            await call()
        except DuramenError:
            return False
        return True

    await until_true(works)


async def test_what_operations_allows_is_enough(
    broker: SecuredBroker, open_database: Open, namespace: str, tmp_path: Path
) -> None:
    async with orders_of(open_database) as (database, table):
        assert await table.get(b"k", level="strong") == b"v"
        offset = (await table.put(b"k", b"w")).offset
        assert await table.get(b"k", after=(await table.put(b"j", b"x")).token) == b"w"
        await database.create_table("other", partitions=2)
        await database.drop_table("other")
    async with await open_database() as database:
        assert await database.table("orders").get(b"k") == b"w"
    assert offset == 1
    async with await KafkaLog.open(broker.url(namespace, tmp_path / "kafka.properties")) as log:
        (orders,) = [topic for topic in await log.topics() if topic.name == "orders"]
        assert await log.trim(orders.partition(Partition(0)), Offset(1)) == 1
    # A cluster's principal can do nothing outside of its prefix.
    settings = dict(line.split(" = ") for line in (tmp_path / "kafka.properties").read_text().splitlines())
    client = AdminClient({**settings, "bootstrap.servers": broker.address}, logger=logging.getLogger("quiet"))
    assert all(name.startswith(f"{namespace}.") for name in client.list_topics(timeout=10).topics), "it sees no others"
    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        client.create_topics([NewTopic("others", num_partitions=1)])["others"].result(10)
    (granted,) = client.create_acls([acl("Read", "others", AclPermissionType.ALLOW)]).values()
    with pytest.raises(KafkaException, match="CLUSTER_AUTHORIZATION_FAILED"):
        granted.result(10)


@pytest.mark.parametrize("operation", ["Create", "DescribeConfigs"])
async def test_a_table_that_cannot_be_made(
    broker: SecuredBroker, open_database: Open, namespace: str, operation: str
) -> None:
    async with orders_of(open_database) as (database, table):
        topic = f"{namespace}.new"
        broker.deny(operation, topic)
        message = await denial_of(lambda: database.create_table("new", timeout=patience_s(CALL_S)))
        assert f"allow it {operation} on topic {topic}" in message
        await table.put(b"k", b"w")
        broker.give_back(operation, topic)
        await wait_works(lambda: database.create_table("new", timeout=patience_s(CALL_S)))
        assert [each.name for each in await database.tables()] == ["new", "orders"]


async def test_a_log_that_cannot_be_trimmed_or_deleted(
    broker: SecuredBroker, open_database: Open, namespace: str, tmp_path: Path
) -> None:
    async with orders_of(open_database):
        pass
    async with await KafkaLog.open(broker.url(namespace, tmp_path / "kafka.properties")) as log:
        (orders,) = [topic for topic in await log.topics() if topic.name == "orders"]
        partition = orders.partition(Partition(0))
        broker.deny("Delete", f"{namespace}.orders")
        for call in (lambda: log.trim(partition, Offset(1)), lambda: log.delete_topic(orders.id)):
            assert f"allow it Delete on topic {namespace}.orders" in await denial_of(call)
        broker.give_back("Delete", f"{namespace}.orders")
        await wait_works(lambda: log.trim(partition, Offset(1)))
        await log.delete_topic(orders.id)


async def test_writing_and_reading_denied_and_given_back(
    broker: SecuredBroker, open_database: Open, namespace: str
) -> None:
    """What was acknowledged before, between and after is there, also for who reads the log anew."""
    topic = f"{namespace}.orders"
    acknowledged: list[bytes] = []
    async with orders_of(open_database) as (_, table):

        async def put() -> None:
            key = uuid.uuid4().hex.encode()
            await table.put(key, b"v", timeout=patience_s(CALL_S))
            acknowledged.append(key)

        async def get() -> None:
            await table.get(b"k", level="strong", timeout=patience_s(CALL_S))

        await put()
        for operation, call in (("Write", put), ("Read", get), ("Describe", get)):
            broker.deny(operation, topic)
            assert f"allow it {operation} on topic {topic}" in await denial_of(call)
            if operation != "Write":
                assert await table.get(b"k", level="eventual") == b"v", "the index is here"
            broker.give_back(operation, topic)
            await wait_works(call)
            await put()
            await get()  # and the replica has it: nothing of this round is under way in the next one
        assert all([await table.get(key, level="strong") == b"v" for key in acknowledged])
    async with await open_database() as database:
        table = database.table("orders")
        assert all([await table.get(key, level="strong") == b"v" for key in acknowledged])


async def test_the_catalog_goes_on_after_a_denial(broker: SecuredBroker, open_database: Open, namespace: str) -> None:
    catalog = f"{namespace}._duramen_catalog"
    async with orders_of(open_database) as (database, table):
        for operation in ("Read", "Write"):
            broker.deny(operation, catalog)
            name = operation.lower()

            async def create(name: str = name) -> None:
                with suppress(TableExists):  # an earlier command was in the log
                    await database.create_table(name, partitions=1, timeout=patience_s(CALL_S))

            if operation == "Write":
                assert f"allow it Write on topic {catalog}" in await denial_of(create)
            else:  # the command may be in the log: nobody here can read what became of it
                with pytest.raises(DuramenError) as raised:
                    await create()
                assert raised.value.retryable
            await table.put(b"k", b"w")
            broker.give_back(operation, catalog)
            await wait_works(create)
            made = database.table(name)
            await made.put(b"k", b"v")
            assert await made.get(b"k", level="strong") == b"v", "the node hears of tables, and holds them"


async def test_a_principal_without_acls(broker: SecuredBroker, tmp_path: Path) -> None:
    user, namespace = f"u{uuid.uuid4().hex[:6]}", f"t{uuid.uuid4().hex[:12]}"
    broker.set_password(user, PASSWORD)
    url = broker.url(namespace, broker.properties(tmp_path / "kafka.properties", user=user))
    with pytest.raises(AccessDenied, match=f"allow it Create on topic {namespace}._duramen_catalog"):
        await duramen.aio.open(tmp_path / "data", log=url, timeout=60)


async def test_a_principal_that_may_only_read(
    broker: SecuredBroker, open_database: Open, namespace: str, tmp_path: Path
) -> None:
    """Kafka refuses its producer as a whole, before any record."""
    async with orders_of(open_database):
        pass
    user = f"u{uuid.uuid4().hex[:6]}"
    broker.set_password(user, PASSWORD)
    broker.allow(namespace, user=user, without="Write")
    url = broker.url(namespace, broker.properties(tmp_path / "reader.properties", user=user))
    with pytest.raises(AccessDenied, match=f"allow it Write on topic {namespace}._duramen_catalog"):
        await duramen.aio.open(tmp_path / "reader", log=url, timeout=60)


@pytest.mark.parametrize("mistake", ["password", "user", "ca"])
async def test_a_login_that_is_refused(
    broker: SecuredBroker, mistake: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    file = tmp_path / "kafka.properties"
    if mistake == "password":
        broker.properties(file, password=WRONG)
    elif mistake == "user":
        broker.properties(file, user="nobody")
    else:
        broker.properties(file, ca=broker.certs.other_ca)
    began = time.monotonic()
    with pytest.raises(AccessDenied) as raised:
        await open_log(broker.url("refused", file))
    assert time.monotonic() - began < patience_s(REFUSED_WITHIN_S)
    assert "see the TLS and SASL settings of the kafka:// URL" in raised.value.message
    assert ("certificate" if mistake == "ca" else "invalid credentials") in raised.value.message
    said = [str(raised.value), repr(raised.value), *(each.getMessage() for each in caplog.records)]
    assert not any(secret in each for each in said for secret in (PASSWORD, WRONG))
    assert sum("FAIL [" in each for each in said) <= 1, "one line a minute for a broker"


@pytest.mark.parametrize("cause", ["certificate", "password"])
async def test_a_broker_that_refuses_a_server_that_runs(broker: SecuredBroker, open_database: Open, cause: str) -> None:
    """Its certificate has expired, or the password is another one since. When that is mended, the server goes on."""
    acknowledged: list[bytes] = []
    async with orders_of(open_database) as (_, table):

        async def put() -> None:
            key = uuid.uuid4().hex.encode()
            await table.put(key, b"v", timeout=patience_s(CALL_S))
            acknowledged.append(key)

        async def get() -> None:
            await table.get(b"k", level="strong", timeout=patience_s(CALL_S))

        await put()
        await get()
        try:
            if cause == "password":
                broker.set_password("duramen", WRONG)
            broker.restart(EXPIRED if cause == "certificate" else "broker")
            expected = "certificate verify failed" if cause == "certificate" else "invalid credentials"
            for call in (put, get):
                assert expected in await denial_of(call)
            assert await table.get(b"k", level="eventual") == b"v"
        finally:
            broker.set_password("duramen", PASSWORD)
            if cause == "certificate":
                broker.restart()
        for call in (put, get):
            await wait_works(call)
        assert all([await table.get(key, level="strong") == b"v" for key in acknowledged])


def test_every_operation_of_the_page_is_tested() -> None:
    """Each ACL that the page asks for is one without which a test above fails."""
    arguments = [word for command in documented_acls("ns") for word in command]
    operations = {arguments[at + 1] for at, word in enumerate(arguments) if word == "--operation"}
    assert operations == {"Create", "Delete", "Describe", "DescribeConfigs", "Read", "Write"}, "Describe: of the group"
