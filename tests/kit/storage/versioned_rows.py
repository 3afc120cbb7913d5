"""Documents that are rows of the servers' tables, that say what rows of a table are, or that a client keeps."""

from __future__ import annotations

import json
from typing import Final

from duramen.client.model.acknowledged_json import parse_acknowledged
from duramen.server.kept.row_format import parse_row as parse_kept_row
from kit.storage.versioned_document import Document, deflated, json_document, plain_json
from log_tier.audit.row_format import parse_row
from log_tier.rows.definition import TableDefinition

__all__ = ["of_rows"]

HISTORY_ROW: Final = (
    b'{"v":1,"server":{"sync_p99_s":0.1,"queue_age_s":0.0,"disk_free_bytes":7,"ready":true},"tables":[{"table":"orders",'
    b'"partitions":[0],"last":[7],"lag":[2],"state":["behind"]}]}'
)
AUDIT_ROW: Final = (
    b'{"v":1,"time_ms":1764104400123,"until_ms":1764104400123,"count":1,"server":"n1","kind":"read",'
    b'"result":"refused","user":"alice","proof":"token","credential":"0a1b2c3d4e5f","address":"10.0.0.7",'
    b'"action":"KV/Get","table":"orders","key":"us:1","detail":"why","version":17,"offset":-1}'
)
ACKNOWLEDGED: Final = (
    b'{"format": "duramen-acknowledged", "version": 1, "runs": [{"table": "AAECAwQFBgcICQoLDA0ODw", "partition": 0, '
    b'"producer": "000000000000002a", "minute": 29401740, "first": 3, "last": 7, "sequence": 1, "records": 5, '
    b'"checksum": "0123456789abcdef"}]}'
)
DEFINITION: Final = (
    b'{"v":4,"number":2,"key":[["carrier","str",false],["flight","int",true]],"value":"row","schemas":[[7,"{'
    b'\\"fields\\":[{\\"name\\":\\"carrier\\",\\"type\\":\\"string\\"},{\\"name\\":\\"flight\\",\\"type\\":[\\"null\\",\\"int\\"]}],'
    b'\\"name\\":\\"Flight\\",\\"type\\":\\"record\\"}"]],"partition_by":1,"indexes":[[1,"by_flight",["flight"],'
    b'[["carrier","02554100","0255410000"],["flight","1501","ff"]]]],'
    b'"index_history":[1,[],1,[]]}'
)


def _read_definition(data: bytes) -> TableDefinition:
    # It is a part of other documents, whose readers parse their JSON.
    return TableDefinition.from_document(json.loads(data))


def of_rows() -> dict[str, Document]:
    """Rows of the audit and of the history, what a session was acknowledged, and definitions."""
    return {
        "row of the audit": json_document(
            AUDIT_ROW,
            lambda data, _: parse_row(b"1764104400123/n1/3fa9c2d1/00000001", data),
            "log_tier/audit/row_format.py",
            version="v",
            required="count",
            changed=plain_json,
        ),
        "row of the history": deflated(
            json_document(
                HISTORY_ROW,
                lambda data, _: parse_kept_row(b"node/n1/1764104400123", data),
                "duramen/server/kept/row_format.py",
                version="v",
                required="tables",
                changed=plain_json,
            )
        ),
        "what a session was acknowledged": json_document(
            ACKNOWLEDGED,
            lambda data, _: parse_acknowledged(data.decode(errors="replace")),
            "duramen/client/model/acknowledged_json.py",
            required="runs",
            changed=plain_json,
        ),
        "definition of a table": json_document(
            DEFINITION,
            lambda data, _: _read_definition(data),
            "log_tier/rows/table_index.py",
            version="v",
            required="schemas",
            changed=plain_json,
        ),
    }
