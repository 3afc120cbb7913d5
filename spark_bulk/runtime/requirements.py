"""The packages that the data source needs, and what to do where one is missing. `spark_bulk.spark_session` looks for
Java."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from log_tier.model.errors import InvalidRequest

__all__ = ["check_interpreter", "check_packages"]

# The limit of a stream's micro-batch came with this one.
_SPARK_MIN: Final = (4, 2)

_PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
"""Spark's own Arrow workers ask for pandas."""

# An interpreter that has not imported the package by then is not judged.
_IMPORT_S: Final = 30.0


def check_packages() -> None:
    """Raise `InvalidRequest` where a Python package is missing, or too old."""
    found: dict[str, str] = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError as error:
            raise InvalidRequest(
                f"the package {package} is not installed: pip install 'duramen[spark]', here and where Spark's "
                "executors run; Spark also needs Java 17 or newer, from the system"
            ) from error
    if tuple(int(part) for part in found["pyspark"].split(".")[:2]) < _SPARK_MIN:
        raise InvalidRequest(
            f"PySpark {found['pyspark']} is too old: Duramen needs {'.'.join(map(str, _SPARK_MIN))} or newer: "
            "pip install --upgrade 'duramen[spark]'"
        )


def check_interpreter(python: str) -> None:
    """Raise `InvalidRequest` if `python`, which Spark starts for its workers, is here and cannot import this package.

    PySpark starts the `python3` of the path unless `PYSPARK_PYTHON` names another one, whatever runs the driver. A
    program that was started as `venv/bin/python job.py` would fail at its first query, with a stack of Spark's. An
    interpreter that is not on this machine, such as one of an archive, is left to Spark. Costs one start of it, where
    it is not the driver's own.
    """
    found = shutil.which(python)
    if found is None or found == sys.executable:
        return
    try:
        status = subprocess.run([found, "-c", "import spark_bulk"], capture_output=True, timeout=_IMPORT_S).returncode
    except (OSError, subprocess.TimeoutExpired):
        return
    if status:
        raise InvalidRequest(
            f"Spark runs {found}, which cannot import spark_bulk: set PYSPARK_PYTHON={sys.executable} before the "
            "session begins, or activate the environment in which Duramen is installed"
        )
