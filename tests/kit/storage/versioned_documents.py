"""One of each kind of document that Duramen stores or sends."""

from __future__ import annotations

import base64
import json
import struct
import tempfile
from functools import cache
from pathlib import Path
from typing import Final
from zlib import crc32

import google_crc32c
import lmdb

from duramen.server.wiring.node_folder import NodeFolder
from duramen.verification.history import read_history
from kit.storage.versioned_document import Document, in_file, json_document, plain_json, sealed_json
from kit.storage.versioned_rows import of_rows
from log_tier.catalog.commands import DropTable, command_batch, parse_command
from log_tier.catalog.map_json import map_from_json
from log_tier.embedded.commit.journal_format import VERSION as JOURNAL_VERSION
from log_tier.embedded.commit.journal_format import encode_header
from log_tier.embedded.commit.journal_replay import Witness, journal_faults
from log_tier.embedded.recovery.data_folder import DataFolder
from log_tier.embedded.recovery.log_summary import LogSummary
from log_tier.embedded.segments.sparse_index import SparseIndex
from log_tier.embedded.storage.checkpoint import Checkpoint
from log_tier.embedded.storage.disk import LocalDisk
from log_tier.kafka.records.header import pack_header
from log_tier.kafka.records.header import read_header as read_record_header
from log_tier.model.barrier import Barrier, barrier_batch, parse_barrier
from log_tier.model.batch import Columns, check_batch, decode_batch, encode_batch
from log_tier.model.batch_header import stamp_batch
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId, table_id_to_bytes
from log_tier.model.log import Topic
from log_tier.model.tokens import Token
from serving_tier.index.lmdb.folder import claim_folder, summary_of_folder
from serving_tier.index.lmdb.format import IDENTITY, pack_identity
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.snapshots.manifest import SnapshotFile, SnapshotManifest, format_manifest, parse_manifest
from serving_tier.versions.manifest import VersionManifest, format_version, parse_version, part_of
from spark_bulk.export.manifest import ExportFile, ExportManifest, format_export, parse_export
from spark_bulk.source.log.positions import parse_position
from spark_bulk.source.model.table_place import TablePlace

__all__ = ["documents"]

CATALOG: Final = Path(__file__).resolve().parents[2] / "log_tier" / "catalog" / "fixtures"

TABLE: Final = TableId("AAECAwQFBgcICQoLDA0ODw")
PLACE: Final = PartitionId(TABLE, Partition(0))
DISK: Final = LocalDisk()


def folder_id(path: Path) -> object:
    opened = DataFolder.open(DISK, path.parent, random_bytes=bytes)
    opened.close()
    return opened.identity


def topic(data: bytes, folder: Path) -> object:
    opened = DataFolder.open(DISK, folder, random_bytes=bytes)
    place = folder / "topics" / TABLE
    place.mkdir()
    (place / "topic.json").write_bytes(data)
    try:
        return opened.topic_in(TABLE)
    finally:
        opened.close()


def journal(path: Path) -> object:
    for fault in journal_faults(DISK, path.parent, bytes(16)):
        if fault.fields["file"] == str(path):
            raise fault
    return "read"


def node(path: Path) -> object:
    opened = NodeFolder.open(path.parent, node_id="n1")
    opened.close()
    return opened.identity


def read_rows(data: bytes, folder: Path) -> object:
    """An index whose row `identity` is `data`."""
    LmdbIndex.open(folder / "0", partition=PLACE).close(clean=False)
    with lmdb.open(str(folder / "0"), max_dbs=9) as env, env.begin(write=True) as txn:
        txn.put(IDENTITY, data, db=env.open_db(b"meta", txn=txn))
    index = LmdbIndex.open(folder / "0", partition=PLACE)
    index.close()
    return index.applied


def made(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()


def batch_of(version: int, flags: int) -> bytes:
    """A batch of that version with these flags, its checksum as version 2 has it."""
    batch = bytearray(encode_batch(Columns([b"key"], [b"value"])))
    batch[4:6] = version, flags
    batch[12:16] = struct.pack("<I", google_crc32c.extend(google_crc32c.value(bytes(batch[4:12])), bytes(batch[40:])))
    return bytes(batch)


def value_of(batch: bytes) -> bytes:
    stamped = stamp_batch(batch, base_offset=Offset(0), timestamp_ms=0, unsynced=0)
    return decode_batch(stamped).columns.values[0]


def journal_header(version: int) -> bytes:
    head = bytearray(encode_header(2, bytes(16), size=8192, number=0, previous=0, fit=8192))
    head[4:6] = struct.pack("<H", version)
    for end in (52, 64):
        head[end : end + 4] = struct.pack("<I", google_crc32c.value(bytes(head[:end])))
    return bytes(head) + bytes(8192 - len(head))


def token_of(kind: int, more: bytes = b"", *, prefix: str = "d1.") -> bytes:
    body = bytes([kind, 1]) + table_id_to_bytes(TABLE) + bytes([1, 0, 43]) + more
    body += crc32(body).to_bytes(4, "little")
    return (prefix + base64.urlsafe_b64encode(body).rstrip(b"=").decode()).encode()


def taken_summary(path: Path) -> object:
    found = LogSummary.take(DISK, path.parent, TABLE)
    return "nothing" if found == LogSummary() else found


def history_of(data: bytes, _: Path) -> object:
    return read_history(data.decode().splitlines())


SNAPSHOT: Final = SnapshotManifest(
    id="9f3c",
    table=TABLE,
    table_name="flights",
    partition=Partition(0),
    offset=Offset(7),
    log_time_ms=1,
    keys=2,
    index_version=2,
    created_ms=3,
    files=(SnapshotFile("data.mdb", 1, (5,)), SnapshotFile("index.json", 1, (6,))),
)
VERSION: Final = VersionManifest("3a", TABLE, "flights", 1, "slot", 3, "here", (part_of(SNAPSHOT),))
EXPORT: Final = ExportManifest(
    "4b", 0, "table", TABLE, "flights", 1, (Offset(-1),), (Offset(7),), 3, "key STRING",
    (ExportFile("partition=0/a.parquet", Partition(0), 2, 9),), (7,),
)  # fmt: skip
CALL: Final = b'{"call":{"number":7,"client":2,"kind":"read","start_ns":1}}'


def of_a_log(folder: Path) -> dict[str, Document]:
    """The JSON documents of a log folder."""
    opened = DataFolder.open(DISK, folder, random_bytes=bytes)
    opened.create("flights", 2)
    opened.close()
    made_topic = next((folder / "topics").iterdir()) / "topic.json"
    place = folder / TABLE / "0"
    place.mkdir(parents=True)
    Checkpoint(end=Offset(3)).write(DISK, place / "checkpoint.json")
    Witness(4, True).write(DISK, folder)
    LogSummary(4).write(DISK, folder, TABLE)
    one_topic = sealed_json(made_topic.read_bytes(), lambda fields: fields.update(id=TABLE))
    stored = "log_tier/embedded/storage/documents.py"
    return {
        "`duramen.json`": json_document(
            made(folder, "duramen.json"), in_file("duramen.json", folder_id), stored, required="id"
        ),
        "`topic.json`": json_document(one_topic, topic, stored, required="partitions"),
        "`checkpoint.json`": json_document(
            made(place, "checkpoint.json"),
            in_file(f"{TABLE}/0/checkpoint.json", lambda path: Checkpoint.read(DISK, path)),
            stored,
            required="earliest",
        ),
        "`journal.json`": json_document(
            made(folder, "journal.json"),
            in_file("journal.json", lambda path: Witness.read(DISK, path.parent)),
            stored,
            required="generation",
        ),
        "`summary.json`": json_document(
            made(folder, "summary.json"),
            in_file("summary.json", taken_summary),
            "log_tier/embedded/recovery/log_summary.py",
            required="generation",
        ),
    }


def of_binary_formats() -> dict[str, Document]:
    """Headers, batches and records."""
    record, sparse = pack_header(1, 0, 0, 7, 40), SparseIndex()
    sparse.add(0, 0)
    return {
        "header of a journal": Document(
            journal_header(JOURNAL_VERSION),
            in_file("journal.0", journal),
            "log_tier/embedded/commit/journal_format.py",
            unknown=None,
            newer=journal_header(JOURNAL_VERSION + 1),
            damaged=journal_header(JOURNAL_VERSION).replace(b"DuJl", b"DuJk"),
        ),
        "sparse index": Document(
            sparse.encode(Offset(0)),
            lambda data, _: len(SparseIndex.decode(data, Offset(0))) or "nothing",
            "log_tier/embedded/segments/sparse_index.py",
            unknown=None,
            newer=b"DuIx\2" + sparse.encode(Offset(0))[5:],
            damaged=b"DuIy\1" + sparse.encode(Offset(0))[5:],
        ),
        "batch": Document(
            batch_of(2, 0),
            lambda data, _: check_batch(data).records,
            "log_tier/model/batch_header.py",
            unknown=batch_of(2, 1 << 6),
            newer=batch_of(3, 0),
            damaged=batch_of(2, 0)[:-1] + b"?",
        ),
        "header of a Kafka record": Document(
            record,
            lambda data, _: read_record_header(data) or "nothing",
            "log_tier/kafka/records/header.py",
            unknown=record[:1] + b"\x40" + record[2:],
            newer=b"\3" + record[1:],
            damaged=record[:-1],
        ),
    }


def of_the_catalog() -> dict[str, Document]:
    """Barriers, commands and the map."""
    barrier = value_of(barrier_batch(Barrier(3, 1050, "empty:12/530", (1,), '{"v":1}'), producer_id=0, sequence=0))
    drop = value_of(command_batch(DropTable(TABLE), "0123456789abcdef"))
    return {
        "barrier": json_document(
            barrier,
            lambda data, _: parse_barrier(data) or "nothing",
            "log_tier/model/barrier.py",
            required="job",
            version="v",
            changed=plain_json,
            damaged=barrier[:-1],
        ),
        "command of the catalog": json_document(
            drop,
            lambda data, _: parse_command(b"drop-table", data),
            "log_tier/catalog/commands.py",
            required="table",
            version="v",
            changed=plain_json,
            damaged=drop[:-1],
        ),
        "map": json_document(
            (CATALOG / "map-2-definitions.json").read_bytes(),
            lambda data, _: map_from_json(data),
            "log_tier/catalog/map_json.py",
            required="nodes",
            version="v",
            changed=plain_json,
            damaged=b"{",
        ),
    }


def of_a_node(folder: Path) -> dict[str, Document]:
    """The documents of a node folder."""
    claim_folder(folder / "index", partition=PLACE, boot_id=lambda: "boot")
    NodeFolder.open(folder / "node", node_id="n1").close()
    identity = pack_identity(PLACE)
    return {
        "`index.json`": json_document(
            made(folder / "index", "index.json"),
            in_file("0/index.json", lambda path: summary_of_folder(path.parent, partition=PLACE, boot="boot")),
            "serving_tier/index/lmdb/folder.py",
            required="boot_id",
        ),
        "rows of an index": Document(
            identity,
            read_rows,
            "serving_tier/index/lmdb/format.py",
            unknown=None,
            newer=b"\4" + identity[1:],
            damaged=identity[:-1],
        ),
        "`node.json`": json_document(
            made(folder / "node", "node.json"),
            in_file("node/node.json", node),
            "duramen/server/wiring/node_folder.py",
            required="identity",
        ),
    }


def of_manifests() -> dict[str, Document]:
    """The manifests of snapshots, versions and exports."""
    return {
        "`manifest.json` of a snapshot": json_document(
            format_manifest(SNAPSHOT),
            lambda data, _: parse_manifest(data, "here"),
            "serving_tier/snapshots/manifest.py",
            required="keys",
        ),
        "`version.json`": json_document(
            format_version(VERSION),
            lambda data, _: parse_version(data, "here"),
            "serving_tier/versions/manifest.py",
            required="parts",
        ),
        "`_manifest.json` of an export": json_document(
            format_export(EXPORT),
            lambda data, _: parse_export(data, "here"),
            "spark_bulk/export/manifest.py",
            required="files",
        ),
    }


def of_positions() -> dict[str, Document]:
    """Histories, positions and tokens."""
    head = b'{"history":2,"partitions":4,"about":{}}\n'
    one_place = TablePlace(Topic(TABLE, "flights", 1), "slot", "", (Offset(0),), ((),), ((),))
    return {
        "history of a check": Document(
            head + CALL,
            history_of,
            "duramen/verification/history.py",
            unknown=head + CALL.replace(b"}}", b',"added":1}}'),
            newer=head.replace(b"2", b"3", 1) + CALL,
            damaged=head + CALL[:-1],
            without=lambda name: head + plain_json(CALL, lambda fields: fields["call"].pop(name)),
            required="number",
        ),
        "position of a Spark stream": json_document(
            json.dumps({"table": TABLE, "seen": {"0": 41}}).encode(),
            lambda data, _: parse_position(json.loads(data), one_place),
            "",
            required="table",
            changed=plain_json,
            damaged=b"[]",
        ),
        "token": Document(
            token_of(0),
            lambda data, _: Token.parse(data.decode()),
            "",
            unknown=token_of(0, b"added"),
            newer=token_of(0, prefix="d2."),
            damaged=token_of(0)[:-1],
        ),
    }


@cache
def documents() -> dict[str, Document]:
    """All of them, by the first column of the table in `docs/FORMATS.md`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        return {
            **of_a_log(folder / "log"),
            **of_binary_formats(),
            **of_the_catalog(),
            **of_manifests(),
            **of_a_node(folder / "node"),
            **of_positions(),
            **of_rows(),
        }
    raise AssertionError("not reached")
