"""Sessions of tests use the archive of Spark's classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from kit.spark.class_archive import archive_file, archive_option


@pytest.mark.spark
def test_the_java_process_of_a_session_maps_the_archive(spark: Any) -> None:
    """Java says nothing where it cannot use an archive: the tests would only be slower."""
    if not archive_option() or archive_option() not in os.environ["SPARK_SUBMIT_OPTS"]:
        pytest.skip("SPARK_SUBMIT_OPTS is set, and names no archive")
    java = spark.sparkContext._gateway.proc.pid
    mapped = {line.split(maxsplit=5)[5].strip() for line in _maps(java) if line.count("/")}
    assert str(archive_file()) in mapped, sorted(each for each in mapped if each.endswith(".jsa"))


def _maps(process: int) -> list[str]:
    return Path(f"/proc/{process}/maps").read_text().splitlines()
