"""A write on real executor processes, one of which is killed when it has written half: run as a program.

killed_executor.py HOST:PORT TABLE ROWS FOLDER
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from kit.spark.spark_session import start_spark

import spark_bulk
from spark_bulk.source.model.cluster_login import ClusterLogin
from spark_bulk.source.model.table_place import all_bounds, find_table


def main(at: str, table: str, rows: int, folder: Path) -> None:
    mark = str(folder / "killed")

    def written_records() -> int:
        place = asyncio.run(find_table(ClusterLogin.of(at), table, timeout_s=20))
        return sum(bounds.latest + 1 for bounds in asyncio.run(all_bounds(place, timeout_s=20)))

    def dying_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            if number == 25 and not os.path.exists(mark):
                open(mark, "w").close()
                deadline = time.monotonic() + 60
                while written_records() == 0:
                    assert time.monotonic() < deadline, "the rows before this one were never written"
                    time.sleep(0.02)
                # Python's worker is a child of its daemon, and that one of the executor's Java.
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    executor = int(stat.read().rpartition(")")[2].split()[1])
                os.kill(executor, signal.SIGKILL)
            yield batch

    spark = start_spark(folder / "spark", master="local-cluster[2,1,1024]")
    spark_bulk.register(spark)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "2000")
    frame = spark.range(0, rows, 1, 1).selectExpr(
        "concat('k', id % 5) AS key", "concat(id, ';') AS value", "'append' AS operation"
    )
    written = frame.mapInArrow(dying_once, frame.schema)
    written.write.format("duramen").options(at=at, table=table).mode("append").save()
    assert os.path.exists(mark), "no executor was killed"
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
