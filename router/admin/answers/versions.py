"""The versions of tables as messages: from the map, and from what the nodes report of their replicas. Pure."""

from __future__ import annotations

from log_tier.catalog.cluster_map import VersionEntry
from log_tier.privacy.masked_url import mask_url
from router.admin.planners.cluster_view import Situation
from router.admin.planners.versions import has_version
from router.proto import admin_pb2 as pb

__all__ = ["list_versions"]


def list_versions(situation: Situation, *, table: str = "") -> list[pb.AdminVersion]:
    """The versions of a table, or of all of them, by table and number."""
    found: list[pb.AdminVersion] = []
    for entry in situation.tables(table):
        for version in entry.versions or (VersionEntry(1, "live"),):
            places = [
                (partition, node) for partition in entry.partition_ids() for node in entry.readable(partition.partition)
            ]
            lacking = [place for place in places if not has_version(situation, *place, version.number)]
            found.append(
                pb.AdminVersion(
                    table=entry.name,
                    version=version.number,
                    state=version.state,
                    url=mask_url(version.url),
                    made_ms=version.made_ms,
                    replicas=len(places),
                    level=len(places) - len(lacking),
                    lacking=[pb.AdminLacking(partition=place.partition, node=node) for place, node in lacking],
                )
            )
    return found
