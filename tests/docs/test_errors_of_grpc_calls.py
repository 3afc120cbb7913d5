"""The page for gRPC in other languages names every error that a call can end with, under the code that it has."""

from __future__ import annotations

import re

from kit.pages.markdown import TOP

from log_tier.model.errors import ERRORS
from log_tier.rpc.status_codes import status_of

# Errors of a start or of the Python client, of the comparison of replicas, and bases of others.
NOT_OF_CALLS = {
    "certificate_invalid",
    "database_closed",
    "database_forked",
    "folder_in_use",
    "folder_read_only",
    "foreign_folder",
    "node_id_taken",
    "offset_passed",
    "port_in_use",
    "rejected",
}


def test_every_error_is_under_its_code() -> None:
    page = (TOP / "docs" / "GRPC.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*?) \|", page, flags=re.MULTILINE)
    named = [(reason, code) for code, reasons in rows for reason in re.findall(r"`([a-z_]+)`", reasons)]
    said = {reason: code for reason, code in named if reason in ERRORS}
    assert said == {reason: status_of(kind).name for reason, kind in ERRORS.items() if reason not in NOT_OF_CALLS}
