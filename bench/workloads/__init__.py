"""The table of workloads, in its order. One file for those of one shape."""

from __future__ import annotations

from typing import Final

from bench.workload import Workload
from bench.workloads.cluster import CLUSTER
from bench.workloads.embedded_get import EMBEDDED_GET
from bench.workloads.fairness import FAIRNESS
from bench.workloads.go_callers import GO_CALLERS
from bench.workloads.healing import HEALING
from bench.workloads.kafka import KAFKA
from bench.workloads.log_append import LOG_APPEND
from bench.workloads.many_tables import MANY_TABLES
from bench.workloads.memory import MEMORY
from bench.workloads.replay import REPLAY
from bench.workloads.resp_client import RESP_CLIENT
from bench.workloads.resp_endpoint import RESP_ENDPOINT
from bench.workloads.resp_ping import RESP_PINGS
from bench.workloads.resp_pipelines import RESP_PIPELINES
from bench.workloads.resp_readers import RESP_READERS
from bench.workloads.restart import RESTART
from bench.workloads.row_indexes import ROW_INDEXES
from bench.workloads.rows import ROWS
from bench.workloads.secured import SECURED
from bench.workloads.served import SERVED
from bench.workloads.sight import SIGHT
from bench.workloads.snapshot_restore import SNAPSHOT_RESTORE
from bench.workloads.spark_build import SPARK_BUILD
from bench.workloads.spark_source import SPARK_SOURCE
from bench.workloads.text_search import TEXT_SEARCH
from bench.workloads.versions import VERSIONS
from bench.workloads.visible import VISIBLE

__all__ = ["WORKLOADS"]

WORKLOADS: Final[dict[str, Workload]] = {
    workload.name: workload
    for workload in (
        *SERVED,
        LOG_APPEND,
        REPLAY,
        EMBEDDED_GET,
        *ROWS,
        *ROW_INDEXES,
        *TEXT_SEARCH,
        VISIBLE,
        RESTART,
        MANY_TABLES,
        MEMORY,
        *CLUSTER,
        *SNAPSHOT_RESTORE,
        *HEALING,
        *RESP_ENDPOINT,
        *RESP_PIPELINES,
        *RESP_PINGS,
        *RESP_CLIENT,
        *RESP_READERS,
        *GO_CALLERS,
        *KAFKA,
        *VERSIONS,
        *SPARK_SOURCE,
        *SPARK_BUILD,
        *SECURED,
        *FAIRNESS,
        *SIGHT,
    )
}
