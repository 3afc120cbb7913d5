"""Parsers of the product that no target enters, with the reason: a test has it that nothing else stands here."""

from __future__ import annotations

from typing import Final

from fuzz.parsers import Parser

__all__ = ["AT_TIMES", "unfuzzed"]

AT_TIMES: Final = Parser("serving_tier/replica/apply.py", "_decoded")
"""Entered by a target where the machine is quick: the event loop applies small chunks while that takes it little."""

_OF_A_PERSON: Final = "reads what the person typed who runs the command, in that person's own process"
_OF_ITSELF: Final = "reads what this process has made itself"
_OF_A_CHILD: Final = "reads what a process of this server says over a pipe or a file that nobody else has"
_OF_THE_CHECK: Final = "is of `duramen check`, which reads what its own workload wrote"
_OF_THE_KERNEL: Final = "reads numbers of a fixed size that the kernel writes"
_OF_A_JOB: Final = "reads what another task of the same Spark job has made"
_JUDGED: Final = "reads the first bytes of a row that its table's judge has read, by the target `row at a client`"
_GOES_ON: Final = "hands its bytes on to parsers that targets enter, and decodes nothing itself"
_TOTAL: Final = "has an answer for all bytes: there is nothing that it can refuse"

_OF_A_LIBRARY: Final = "reads a document of tantivy's index, whose damage has tests of its own: it is built again"

_REASONS: Final[dict[str, tuple[str, ...]]] = {
    _OF_A_PERSON: (
        "log_tier/audit/audit_settings.py::AuditSettings.parse",
        "log_tier/open.py::open_log",
        "duramen/cli/admin/arguments.py::parse_place",
        "duramen/cli/admin/arguments.py::parse_partition",
        "duramen/cli/admin/restore.py::_time_ms",
        "duramen/cli/admin/verb_command.py::_parse_place",
        "duramen/cli/data/audit.py::parse_time_ms",
        "duramen/cli/data/defined_text.py::DefinedText._operand",
        "duramen/cli/terminal/options.py::_time_of",
        "duramen/cli/terminal/text.py::bytes_of",
        "duramen/cli/users/lifetime.py::parse_lifetime",
        "duramen/cli/users/sizes.py::parse_size",
    ),
    _OF_ITSELF: (
        "log_tier/model/barrier.py::barrier_batch",
        "router/data/misfits.py::_with_holder",
        "router/endpoints/resp/data/freshness_page.py::description_of",
        "duramen/cli/data/defined_text.py::DefinedText.key",
        "duramen/cli/data/defined_text.py::DefinedText.value",
        "duramen/cli/data/defined_text.py::DefinedText.json_value",
        "duramen/cli/data/definition_text.py::schema_text",
        "duramen/client/rows/shapes/renamed.py::with_record_name",
        "duramen/server/console/calls/call_messages.py::reply_of",
        "duramen/server/console/calls/local_call.py::LocalCall.abort",
        "duramen/server/sight/http_endpoint.py::HttpEndpoint._answer",
        "duramen/server/sight/http_endpoint.py::HttpEndpoint._readyz",
        "spark_bulk/build/index_writer.py::IndexWriter._stored",
        "spark_bulk/export/export_place.py::ExportPlace.write_rows",
        "spark_bulk/export/row_checksum.py::hashed_rows",
        "spark_bulk/runtime/placing.py::partition_ids",
    ),
    _OF_A_CHILD: (
        "duramen/server/roles/reader_process.py::main",
        "duramen/server/supervisor/child.py::Child.start",
        "duramen/server/supervisor/child.py::_failure",
        "duramen/server/supervisor/fork_wire.py::receive_message",
    ),
    _OF_THE_CHECK: (
        "duramen/verification/cluster.py::StartedCluster._read",
        "duramen/verification/model.py::_barrier",
        "duramen/verification/run.py::_mark_the_end",
        "duramen/verification/scratch_log.py::scratch_log",
        "duramen/verification/watcher.py::_Shown.add",
        "duramen/verification/workload.py::_Client.read_keys",
        "duramen/verification/workload.py::_Client.scan",
        "duramen/verification/workload.py::_operation",
    ),
    _OF_THE_KERNEL: ("log_tier/privacy/machine_socket.py::connect_machine_socket",),
    _OF_A_JOB: (
        "spark_bulk/build/outcome.py::PartitionOutcome.of_row",
        "spark_bulk/source/model/table_place.py::_definition_of",
    ),
    _OF_A_LIBRARY: ("serving_tier/text/text_layer.py::DiskLayer._read_point",),
    _JUDGED: ("log_tier/rows/framing.py::schema_number",),
    _GOES_ON: (
        "serving_tier/replica/apply.py::_decoded",
        "router/data/misfits.py::_row_words",
        "router/admin/answers/changes.py::_parsed",
        "router/endpoints/grpc/pages/log_records.py::_decoded",
        "router/endpoints/grpc/pages/log_records.py::_row_text",
        "router/endpoints/grpc/pages/one_key.py::found_entry",
        "duramen/blocking/row_table.py::RowTable._decoded",
        "duramen/blocking/typed_table.py::_decoded",
        "duramen/client/row_table.py::RowTable._decoded",
        "duramen/server/console/node_watch.py::NodeWatch._asked",
        "duramen/server/kept/history_table.py::_parsed",
    ),
    _TOTAL: (
        "log_tier/model/partitioner.py::murmur2",
        "router/admin/audits/audit_acknowledged.py::_run_from",
        "router/routing/scans.py::_share_of_bytes",
        "duramen/server/console/calls/message_document.py::_base64",
    ),
}


def unfuzzed() -> dict[Parser, str]:
    """Each of them, and why."""
    found: dict[Parser, str] = {}
    for reason, names in _REASONS.items():
        for name in names:
            file, _, qualified = name.partition("::")
            found[Parser(file, qualified)] = reason
    return found
