"""Texts of settings and requests: addresses, URLs, places of snapshots, ranges, options, files of keys and secrets."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from duramen.certificates.names import parse_hosts
from duramen.certificates.pem import parse_key
from fuzz.target import Target
from log_tier.access.client.client_target import parse_target
from log_tier.kafka.cluster.kafka_address import KafkaAddress
from log_tier.model.errors import DuramenError, InvalidRequest
from log_tier.model.identifiers import parse_ranges, ranges_text
from log_tier.privacy.masked_url import mask_url
from log_tier.privacy.secret_files import read_secret_file
from serving_tier.locations.location import NoLocation, parse_location
from serving_tier.names import parse_snapshot_path, snapshot_path
from serving_tier.snapshots.store_url import open_place
from spark_bulk.source.model.catalog_tables import carried_options
from spark_bulk.source.model.options import parse_read_options, parse_write_options

__all__ = ["text_targets"]

_MEMORY: Final = Path("/dev/shm")
_URLS: Final = (
    b"https://anna:secret@host:1/a?token=x&b=http%3A%2F%2Fu%3Ap%40h",
    b"s3://bucket/a?endpoint_url=https://user:pass@minio:9000",
    b"host:7070,other:7070",
    b"user=a;password=b@c",
)
_PLACES: Final = (b"s3://bucket/a/b?endpoint_url=http://[::1]:9000&region=eu-1", b"file:///var/lib/a%20b", b"/var//lib")
_HOSTS_BYTES_MAX: Final = 16 * 1024
"""Of a person's command: each host takes 10 us."""
_FAR: Final = (b"s3://bucket/a/b?endpoint_url=http://minio:9000&region=eu-1", b"/var/lib/snapshots")
_SERVERS: Final = (b"duramens://anna@host:7070,other:7070/", b"[::1]:7070")
_OPTIONS: Final = (
    {"at": "h:7070", "table": "t", "values": "json", "schema": "a INT", "key": "base64:a2V5", "timeout": "5"},
    {"at": "duramens://anna@h:7070", "table": "t", "log": "true", "from": "earliest", "to": "latest"},
    {"at": "h:7070", "table": "t", "where": '{"a": 1}', "job": "j", "compress": "true"},
)
_COMMENT: Final = b"duramen:snapshots=%2Fa&table=t"
_PROPERTIES: Final = b"# of librdkafka\nsasl.mechanism = PLAIN\nsasl.username=anna\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


@cache
def _file() -> Path:
    """One file for all inputs of this process, which its owner alone reads; it goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="duramen-fuzz-", dir=_MEMORY if _MEMORY.is_dir() else None)
    _folders.append(folder)
    path = Path(folder.name) / "file"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
    return path


_folders: list[tempfile.TemporaryDirectory[str]] = []


def _written(data: bytes) -> Path:
    _file().write_bytes(data)
    return _file()


def _kafka(data: bytes) -> None:
    KafkaAddress.parse(_text(data).replace("config=", "other="), environment={})


def _kafka_file(data: bytes) -> None:
    KafkaAddress.parse(f"kafka://h:9092/?config={_written(data)}", environment={})


def _location(data: bytes) -> None:
    """A location is one again by its text."""
    text = _text(data)
    location = parse_location(text, entry=True)
    assert parse_location(location.url, entry=True) == location, f"{text!r} is {location.url}, which is another one"


def _snapshot(data: bytes) -> None:
    found = parse_snapshot_path(_text(data))
    if found is None:
        raise InvalidRequest("no path of a snapshot")
    assert parse_snapshot_path(snapshot_path(*found)) == found


def _store(data: bytes) -> None:
    """Nobody is asked anything: the file system of a bucket is made when it is used."""
    text = _text(data)
    if not text.startswith("s3://"):
        raise InvalidRequest("no bucket")
    open_place(text, None)


def _ranges(data: bytes) -> None:
    found = parse_ranges(_text(data))
    assert parse_ranges(ranges_text(found)) == found


def _key(data: bytes) -> None:
    parse_key(data, "key.pem")


def _keys() -> list[bytes]:
    key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    return [key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]


def _spark(data: bytes) -> None:
    try:
        given: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("no JSON") from error
    if not isinstance(given, dict):
        raise InvalidRequest("no options")
    options = {name: value for name, value in given.items() if isinstance(value, str)}
    for parse in (parse_write_options, parse_read_options):
        try:
            parse(options)
        except DuramenError:
            if parse is parse_read_options:
                raise


def _secret(data: bytes) -> None:
    read_secret_file(_written(data))


def text_targets() -> Iterator[Target]:
    """Each as the one who sets it, or who asks, writes it."""
    options = [json.dumps(each).encode() for each in _OPTIONS]
    snapshot = b"AAECAwQFBgcICQoLDA0ODw/3/00000000000000000007-0123456789abcdef"
    targets: tuple[tuple[str, Sequence[bytes] | Callable[[], Sequence[bytes]], Callable[[bytes], object]], ...] = (
        ("address of servers", _SERVERS, lambda data: parse_target(_text(data))),
        ("URL of Kafka", (b"kafka://h:9092,g/ns?replication=3&min_insync=2&client.id=a",), _kafka),
        ("file of Kafka's properties", (_PROPERTIES,), _kafka_file),
        ("path of a snapshot", (snapshot,), _snapshot),
        ("URL of a store", _FAR, _store),
        ("URL that is shown", _URLS, lambda data: mask_url(_text(data))),
        ("private key", _keys, _key),
        ("file of a secret", (b"  secret \n", "Ä".encode()), _secret),
        ("options of Spark", options, _spark),
        ("options in a comment", (_COMMENT,), lambda data: carried_options([_text(data)])),
    )
    for name, samples, read in targets:
        yield Target(name, samples if callable(samples) else partial(list[bytes], samples), read)
    hosts = [b"localhost,127.0.0.1,::1,*.example.org"]
    yield Target(
        "hosts of a certificate",
        lambda: hosts,
        lambda data: parse_hosts(_text(data)),
        grown_bytes_max=_HOSTS_BYTES_MAX,
    )
    yield Target("location", partial(list[bytes], _PLACES), _location, (NoLocation,))
    yield Target("ranges of offsets", lambda: [b"5-7 9 12-40", b""], _ranges, (ValueError,))
