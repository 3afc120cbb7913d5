"""A whole server in this process, a short workload on it, and what the checker says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from duramen.server.roles.all_in_one import SingleServer
from duramen.verification.checker import Violation, check_history
from duramen.verification.history import History
from duramen.verification.run import connect_to, run_check
from duramen.verification.workload import WorkloadShape
from log_tier.model.batch import Batch, decode_batch, encode_batch
from log_tier.model.batch_header import stamp_batch

SHAPE = WorkloadShape(clients=6, watchers=2, hot_keys=8, cold_keys=60, timeout_s=2.0, expiring=0.1)


async def checked(
    folder: Path,
    *,
    seed: str = "1",
    seconds: float = 0.8,
    plant: Callable[[SingleServer], None] = lambda server: None,
    reads_log: bool = False,
) -> tuple[History, list[Violation]]:
    """Run, with a bug that `plant` puts into the server. `reads_log`: the log is read by itself too."""
    server = await SingleServer.open(folder, port=0)
    try:
        plant(server)
        target = f"127.0.0.1:{server.port}"
        history = await run_check(
            connect_to(target, timeout=SHAPE.timeout_s),
            seconds=seconds,
            seed=seed,
            shape=SHAPE,
            targets=[target],
            log_url=f"grpc://{target}" if reads_log else None,
        )
    finally:
        await server.close()
    return history, check_history(history)


def changed(batches: Sequence[Batch], change: Callable[[Batch], Batch | None]) -> list[Batch]:
    """Stored batches with some of them changed; None leaves one as it is."""
    found: list[Batch] = []
    for batch in batches:
        new = change(replace(batch, columns=replace(batch.columns)))
        if new is None:
            found.append(batch)
            continue
        header = new.header
        encoded = encode_batch(new.columns, producer_id=header.producer_id, sequence=header.sequence, span=header.span)
        stored = stamp_batch(
            encoded, base_offset=header.base_offset, timestamp_ms=header.timestamp_ms, unsynced=header.unsynced
        )
        found.append(decode_batch(stored))
    return found
