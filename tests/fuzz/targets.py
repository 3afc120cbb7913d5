"""All targets, by name."""

from __future__ import annotations

from functools import cache

from fuzz.access_targets import access_targets
from fuzz.call_targets import call_targets
from fuzz.certificate_targets import certificate_targets
from fuzz.client_targets import client_targets
from fuzz.document_targets import document_targets
from fuzz.endpoint_targets import endpoint_targets
from fuzz.http_targets import http_targets
from fuzz.index_targets import index_targets
from fuzz.loading_targets import loading_targets
from fuzz.log_targets import log_targets
from fuzz.message_targets import message_targets
from fuzz.replica_targets import replica_targets
from fuzz.row_targets import row_targets
from fuzz.search_targets import search_targets
from fuzz.store_targets import store_targets
from fuzz.table_targets import table_targets
from fuzz.target import Target
from fuzz.text_targets import text_targets
from fuzz.wire_targets import wire_targets

__all__ = ["all_targets"]


@cache
def all_targets() -> dict[str, Target]:
    """Each has a name of its own."""
    found: dict[str, Target] = {}
    for target in (
        *document_targets(),
        *log_targets(),
        *index_targets(),
        *wire_targets(),
        *message_targets(),
        *call_targets(),
        *certificate_targets(),
        *access_targets(),
        *loading_targets(),
        *row_targets(),
        *table_targets(),
        *store_targets(),
        *replica_targets(),
        *client_targets(),
        *text_targets(),
        *search_targets(),
        *http_targets(),
        *endpoint_targets(),
    ):
        assert target.name not in found, f"two targets have the name {target.name}"
        found[target.name] = target
    return found
