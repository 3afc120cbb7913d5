"""A build on executors that are processes of their own, one of which is killed while it writes an index: a program.

killed_builder.py HOST:PORT TABLE ROWS URL FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from kit.spark.spark_session import start_spark

from spark_bulk.build import version_build
from spark_bulk.build.partition_build import BuildPlan, partition_builder

Builder = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def main(at: str, table: str, rows: int, url: str, folder: Path) -> None:
    died = str(folder / "died")

    def dying_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches):
            yield batch
            if number == 3 and not os.path.exists(died):
                open(died, "w").close()
                # Python's worker is a child of its daemon, and that one of the executor's Java.
                with open(f"/proc/{os.getppid()}/stat") as stat:
                    os.kill(int(stat.read().rpartition(")")[2].split()[1]), signal.SIGKILL)

    def deadly_builder(plan: BuildPlan) -> Builder:
        build = partition_builder(plan)
        return lambda batches: build(dying_once(batches))

    version_build.partition_builder = deadly_builder  # type: ignore[attr-defined]
    spark = start_spark(folder / "spark", master="local-cluster[2,1,1024]")
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1000")
    frame = spark.range(rows).selectExpr("CAST(id AS string) AS k", "repeat('v', 20) AS v")
    version_build.build_index(frame, at=at, table=table, key="k", value="v", url=url)
    assert os.path.exists(died), "no executor was killed"
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], Path(sys.argv[5]))
