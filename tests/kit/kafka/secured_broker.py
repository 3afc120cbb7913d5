"""A Kafka broker as a company runs it: SASL_SSL, SCRAM-SHA-512, ACLs, and nobody may do what no ACL allows.

The broker's certificate is one of `duramen cert`. The operator works at a listener on loopback that only this machine
reaches (`ANONYMOUS` is the super user there); everybody else comes by TLS and a password.
"""

from __future__ import annotations

import logging
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from deploy.kafka.brokers import LIBS, Brokers
from deploy.kafka.ports import HOST, ReservedPorts
from kit.certs_at_hand import CertsAtHand
from kit.deadlines import patience_s

__all__ = ["EXPIRED", "GOOD", "PASSWORD", "PRINCIPAL", "SecuredBroker", "acl", "documented_acls"]

PRINCIPAL: Final = "duramen"
PASSWORD: Final = "horse-staple-5518"
MECHANISM: Final = "SCRAM-SHA-512"

EXPIRED: Final = "server"
GOOD: Final = "broker"
"""Certificates of the broker, by the names of their files."""

# Longer than a certificate is valid, and not as long as its CA.
_YEARS_AGO_DAYS: Final = 1000

_ANSWER_S: Final = 30.0

_OPERATIONS_PAGE: Final = Path(__file__).resolve().parents[3] / "docs" / "OPERATIONS.md"

_OPERATIONS: Final = {
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
}

_quiet = logging.getLogger("kafka operator")
_quiet.setLevel(logging.CRITICAL)


class SecuredBroker:
    """One broker, its certificates, and what its operator does. A context manager: the broker runs within."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        # The first certificate has expired by now; the second one is good.
        self.certs = CertsAtHand(folder, days=-_YEARS_AGO_DAYS, hosts=("localhost", HOST))
        self.certs.issue(GOOD)
        self._show(GOOD)
        self._ports = ReservedPorts(1)
        self.address = f"{HOST}:{self._ports.numbers[0]}"
        login = "org.apache.kafka.common.security.scram.ScramLoginModule"
        self.brokers = Brokers(
            1,
            folder / "kafka",
            settings={
                "listeners": f"SASL_SSL://{self.address}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
                "sasl.enabled.mechanisms": MECHANISM,
                f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": f"{login} required;",
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(folder / "broker.pem"),
                "ssl.client.auth": "none",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                "allow.everyone.if.no.acl.found": "false",
            },
        )

    def __enter__(self) -> Self:
        self.brokers.__enter__()
        self._admin = AdminClient({"bootstrap.servers": self.brokers.bootstrap}, logger=_quiet)
        self.set_password(PRINCIPAL, PASSWORD)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.brokers.stop(grace_s=0)
        self._ports.close()

    # --- how servers reach it

    def properties(
        self, file: Path, *, user: str = PRINCIPAL, password: str = PASSWORD, ca: Path | None = None
    ) -> Path:
        """Write the file of properties by which a server logs in; mode 0600. Returns its path."""
        lines = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": password,
            "ssl.ca.location": str(ca or self.certs.ca),
        }
        file.touch(mode=0o600)
        file.write_text("".join(f"{name} = {value}\n" for name, value in lines.items()))
        return file

    def url(self, namespace: str, properties: Path) -> str:
        """A log on this broker; what is secret is in the file."""
        return f"kafka://{self.address}/{namespace}?config={properties}"

    # --- what an operator does

    def set_password(self, user: str, password: str) -> None:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        (done,) = self._admin.alter_user_scram_credentials(
            [UserScramCredentialUpsertion(user, info, password.encode())]
        ).values()
        done.result(_ANSWER_S)

    def allow(self, namespace: str, *, user: str = PRINCIPAL, without: str = "") -> None:
        """Run the commands of OPERATIONS for a cluster of this namespace; `without` one operation."""
        for command in documented_acls(namespace):
            words = [word.replace(f"User:{PRINCIPAL}", f"User:{user}") for word in command]
            if without in words:
                at = words.index(without)
                del words[at - 1 : at + 1]
            self.run_tool("org.apache.kafka.tools.AclCommand", words)

    def deny(self, operation: str, topic: str) -> None:
        """An ACL that forbids one operation on one topic; it wins over what allows it."""
        for done in self._admin.create_acls([acl(operation, topic, AclPermissionType.DENY)]).values():
            done.result(_ANSWER_S)

    def give_back(self, operation: str, topic: str) -> None:
        """Remove what `deny` made."""
        binding = acl(operation, topic, AclPermissionType.DENY)
        chosen = AclBindingFilter(
            binding.restype,
            binding.name,
            binding.resource_pattern_type,
            binding.principal,
            binding.host,
            binding.operation,
            binding.permission_type,
        )
        for done in self._admin.delete_acls([chosen]).values():
            assert len(done.result(_ANSWER_S)) == 1, f"no denial of {operation} on {topic} was there"

    def run_tool(self, main: str, arguments: Sequence[str]) -> str:
        """One of Kafka's own commands, at the operator's listener; what it printed."""
        command = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", f"{LIBS}/*", main]
        command += ["--bootstrap-server", self.brokers.bootstrap, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s(_ANSWER_S), check=False)
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return done.stdout

    def restart(self, certificate: str = GOOD) -> None:
        """Start it again with another certificate; its data and address stay."""
        self.brokers.kill(1)
        self._show(certificate)
        self.brokers.restart(1)
        self.brokers.wait_ready()

    def _show(self, certificate: str) -> None:
        parts = [self.certs.path / f"{certificate}.{kind}" for kind in ("key", "crt")]
        file = self._folder / "broker.pem"
        file.touch(mode=0o600)
        file.write_text("".join(part.read_text() for part in parts))


def documented_acls(namespace: str) -> list[list[str]]:
    """The arguments of each `kafka-acls.sh` in OPERATIONS, for this namespace, without the connection."""
    text = _OPERATIONS_PAGE.read_text().replace("\\\n", " ")
    found = re.findall(r"^kafka-acls\.sh --bootstrap-server \S+ --command-config \S+ (.*)$", text, re.MULTILINE)
    assert found, "OPERATIONS has no kafka-acls.sh"
    return [[part.replace("duramen.", f"{namespace}.") for part in shlex.split(line)] for line in found]


def acl(operation: str, topic: str, permission: AclPermissionType) -> AclBinding:
    """An ACL of one topic for Duramen's principal; `operation` as in the page (`DescribeConfigs`)."""
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{PRINCIPAL}",
        "*",
        _OPERATIONS[operation],
        permission,
    )
