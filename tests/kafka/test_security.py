"""A broker that asks who one is: SASL and TLS, with the right settings and with wrong ones."""

from __future__ import annotations

import logging
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from kit.deadlines import patience_s

import duramen.aio
from deploy.kafka.brokers import Brokers, missing
from deploy.kafka.ports import HOST, ReservedPorts
from log_tier.model.errors import AccessDenied, Disconnected, InvalidRequest, Unavailable
from log_tier.open import open_log

pytestmark = pytest.mark.kafka

USER: Final = "duramen-user"
PASSWORD: Final = "correct-horse-7391"
WRONG: Final = "wrong-battery-2684"
STORE_PASSWORD: Final = "store-password"

# How long a person waits before they look for another cause.
REFUSED_WITHIN_S: Final = 20.0


@dataclass(frozen=True)
class Secured:
    """A broker with a SASL and a TLS listener, and the certificates."""

    sasl: str
    tls: str
    folder: Path

    @property
    def authority(self) -> str:
        """The file of the certificate authority that the broker's certificate is from."""
        return str(self.folder / "ca.pem")


def openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def make_authority(folder: Path, name: str) -> None:
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem")),
    )


def make_certificates(folder: Path) -> None:
    """An authority, another one that has signed nothing, and the broker's key store."""
    make_authority(folder, "ca")
    make_authority(folder, "stranger")
    key, request, certificate = folder / "broker.key", folder / "broker.csr", folder / "broker.pem"
    openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"),
        *("-keyout", str(key), "-out", str(request)),
    )
    names = folder / "names.cnf"
    names.write_text(f"subjectAltName=IP:{HOST},DNS:localhost\n")
    openssl(
        *("x509", "-req", "-days", "2", "-in", str(request), "-out", str(certificate), "-extfile", str(names)),
        *("-CA", str(folder / "ca.pem"), "-CAkey", str(folder / "ca.key"), "-CAcreateserial"),
    )
    openssl(
        *("pkcs12", "-export", "-in", str(certificate), "-inkey", str(key), "-out", str(folder / "broker.p12")),
        *("-name", "broker", "-passout", f"pass:{STORE_PASSWORD}"),
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("secured")
    make_certificates(folder)
    with ReservedPorts(2) as ports:
        sasl, tls = (f"{HOST}:{port}" for port in ports.numbers)
        plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
        settings = {
            "listeners": f"SASL_PLAINTEXT://{sasl},SSL://{tls}",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{plain} required user_{USER}="{PASSWORD}";',
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(folder / "broker.p12"),
            "ssl.keystore.password": STORE_PASSWORD,
            "ssl.client.auth": "none",
        }
        with Brokers(1, folder / "kafka", settings=settings):
            yield Secured(sasl, tls, folder)


def url_of(address: str, **settings: str) -> str:
    """A namespace of a test's own; a setting's underscores are dots."""
    query = "&".join(f"{name.replace('_', '.')}={quote(value)}" for name, value in settings.items())
    return f"kafka://{address}/t{uuid.uuid4().hex[:12]}?{query}"


def sasl_url(secured: Secured, **settings: str) -> str:
    common = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"}
    return url_of(secured.sasl, **common, **settings)


async def check_works(url: str, folder: Path) -> None:
    """A whole database on that log: every kind of client that the engine has."""
    async with await duramen.aio.open(folder, log=url, timeout=60) as database:
        table = await database.create_table("flights", partitions=1)
        done = await table.put(b"UA1545", b"departed")
        assert await table.get(b"UA1545", after=done.token) == b"departed"


async def check_refused(url: str, *kinds: type[Exception], caplog: pytest.LogCaptureFixture) -> str:
    """Refused soon, and no secret in what is said to anybody. Returns the message."""
    caplog.set_level(logging.DEBUG)
    began = time.monotonic()
    with pytest.raises(kinds) as raised:
        await open_log(url)
    assert time.monotonic() - began < patience_s(REFUSED_WITHIN_S)
    said = [str(raised.value), repr(raised.value), *(each.getMessage() for each in caplog.records)]
    for secret in (PASSWORD, WRONG, STORE_PASSWORD):
        assert not any(secret in each for each in said), said
    return str(raised.value)


async def test_the_url_says_who_one_is(secured: Secured, tmp_path: Path) -> None:
    await check_works(sasl_url(secured, sasl_username=USER, sasl_password=PASSWORD), tmp_path / "data")


async def test_a_file_says_it(secured: Secured, tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(
        "# what should not stand in a URL\n"
        f"security.protocol = SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.username={USER}\nsasl.password = {PASSWORD}\n"
    )
    await check_works(url_of(secured.sasl, config=str(file)), tmp_path / "data")


async def test_the_environment_says_it(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DURAMEN_KAFKA_SASL_PASSWORD", PASSWORD)
    await check_works(sasl_url(secured, sasl_username=USER), tmp_path / "data")


async def test_a_wrong_password_is_refused(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    url = sasl_url(secured, sasl_username=USER, sasl_password=WRONG)
    message = await check_refused(url, AccessDenied, caplog=caplog)
    assert "see the TLS and SASL settings of the kafka:// URL" in message


async def test_an_unknown_user_is_refused(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    await check_refused(
        sasl_url(secured, sasl_username="somebody", sasl_password=PASSWORD), AccessDenied, caplog=caplog
    )


async def test_a_mechanism_that_the_broker_has_not(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    who = {"sasl_username": USER, "sasl_password": PASSWORD}
    url = url_of(secured.sasl, security_protocol="SASL_PLAINTEXT", sasl_mechanism="SCRAM-SHA-256", **who)
    message = await check_refused(url, AccessDenied, caplog=caplog)
    assert "PLAIN" in message, "it says what the broker has"


async def test_no_credentials_at_all(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka closes such a connection without a word, so it looks like a broker that is not there."""
    await check_refused(url_of(secured.sasl), Disconnected, AccessDenied, caplog=caplog)


async def test_a_property_that_cannot_be(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    url = sasl_url(secured, sasl_username=USER, sasl_passwort=PASSWORD)
    message = await check_refused(url, InvalidRequest, caplog=caplog)
    assert "sasl.passwort" in message


async def test_tls_with_its_authority(secured: Secured, tmp_path: Path) -> None:
    url = url_of(secured.tls, security_protocol="SSL", ssl_ca_location=secured.authority)
    await check_works(url, tmp_path / "data")


@pytest.mark.parametrize("authority", ["stranger", ""])
async def test_an_authority_that_did_not_sign(
    secured: Secured, authority: str, caplog: pytest.LogCaptureFixture
) -> None:
    more: Mapping[str, str] = {"ssl_ca_location": str(secured.folder / f"{authority}.pem")} if authority else {}
    message = await check_refused(url_of(secured.tls, security_protocol="SSL", **more), AccessDenied, caplog=caplog)
    assert "certificate" in message


async def test_plain_words_to_a_broker_that_wants_tls(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    await check_refused(url_of(secured.tls), Disconnected, AccessDenied, caplog=caplog)


async def test_a_broker_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    """What refusals must not be mistaken for."""
    with ReservedPorts(1) as ports:
        url = url_of(f"{HOST}:{ports.numbers[0]}", sasl_password=PASSWORD)
        await check_refused(url, Disconnected, Unavailable, caplog=caplog)
