"""An archive of the classes that Spark loads, made once for a Java and a PySpark: it saves half of a short command.

A Java process that runs a small query reads, checks and links some twenty thousand classes from 280 files. With an
archive it maps them into its memory (https://openjdk.org/jeps/350). Java leaves an archive alone that it can see to be
none of its version. One that was cut short ends it, so an archive has its name when it is whole: after `rm -r .spark`
the next run makes it again.

    python -m kit.spark.class_archive      a run of Spark that loads what tests need; Java writes the archive at its end
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from kit.deadlines import patience_s
from spark_bulk.spark_session import java_problem

__all__ = ["archive_file", "archive_option", "make_archive"]

_TOP: Final = Path(__file__).resolve().parents[3]
_FOLDER: Final = _TOP / ".spark"

_MAKE_S: Final = 300.0

_NO_LOG: Final = "-Xlog:disable"
"""Java warns of an archive that it cannot use on standard output, where commands print their results."""

_ROWS: Final = 100


def archive_file() -> Path | None:
    """Where the archive lies for this Java and this PySpark; None without one of them."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    try:
        import pyspark
    except ImportError:
        return None
    if java is None:
        return None
    binary = Path(java).resolve()
    made_of = (binary, binary.stat().st_mtime_ns, pyspark.__file__, pyspark.__version__)
    return _FOLDER / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:16]}.jsa"


def archive_option() -> str:
    """The options with which Java uses the archive, where there is one for this Java and this PySpark; else none."""
    found = archive_file()
    return f'{_NO_LOG} -XX:SharedArchiveFile="{found}"' if found is not None and found.exists() else ""


def make_archive(start_options: str) -> None:
    """Make the archive if there is none. `start_options`: those of the sessions that are to use it. Some 25 s of a
    processor, once; nothing where Spark cannot run, which the tests say.
    """
    archive = archive_file()
    if archive is None or archive.exists() or java_problem():
        return
    _FOLDER.mkdir(parents=True, exist_ok=True)
    written = archive.with_suffix(f".{os.getpid()}")
    options = f'{start_options} {_NO_LOG} -XX:ArchiveClassesAtExit="{written}"'
    done = subprocess.run(
        [sys.executable, "-m", "kit.spark.class_archive"],
        env={**os.environ, "SPARK_SUBMIT_OPTS": options, "PYTHONPATH": str(_TOP / "tests")},
        capture_output=True,
        text=True,
        timeout=patience_s(_MAKE_S),
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the run of Spark that shows which classes it loads failed: {done.stdout}{done.stderr}")
    written.rename(archive)
    for other in _FOLDER.glob("*.jsa"):
        if other != archive:
            other.unlink(missing_ok=True)  # of another Java, or another PySpark


def _load_classes(spark: Any, folder: Path) -> int:
    """Do a little of everything that tests do with Spark. Returns how many rows a stream has found."""
    from pyspark.sql import functions

    rows = spark.range(_ROWS).selectExpr("id", "CAST(id % 7 AS STRING) AS name", "CAST('a' AS BINARY) AS value")
    for form in ("parquet", "json"):
        rows.select("id", "name").write.format(form).save(str(folder / form))
    read = spark.read.json(str(folder / "json"))
    read.groupBy("name").agg({"*": "count", "id": "sum"}).collect()
    read.createOrReplaceTempView("input")
    spark.sql("SELECT concat_ws('/', name, id) AS key, to_json(struct(*)) AS value FROM input WHERE id > 3").collect()
    same: Callable[[Any], Any] = lambda batches: batches  # noqa: E731  (a worker has it by its value)
    sorted_rows = rows.unionByName(rows).repartitionById(2, functions.col("id").cast("int") % 2)
    sorted_rows.sortWithinPartitions("name", functions.desc_nulls_last("value")).mapInArrow(same, rows.schema).collect()
    spark.createDataFrame([("a", 1)], "name STRING, id INT").collect()
    found: list[int] = []
    query = (
        spark.readStream.schema(read.schema)
        .json(str(folder / "json"))
        .writeStream.foreachBatch(lambda frame, _: found.append(frame.count()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(found)


def _main() -> None:
    from kit.spark.spark_session import start_spark

    with tempfile.TemporaryDirectory(prefix="duramen-spark-") as name:
        spark = start_spark(Path(name))
        assert _load_classes(spark, Path(name)) == _ROWS
        gateway = spark.sparkContext._gateway
        spark.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(patience_s(_MAKE_S))  # until it has written its archive


if __name__ == "__main__":
    _main()
