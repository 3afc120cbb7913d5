"""The packages that the data source needs, and what to do where one is missing. `spark_bulk.session` looks for Java."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from log_tier.model.errors import InvalidRequest

__all__ = ["check_packages"]

# The limit of a stream's micro-batch came with this one.
_SPARK_MIN: Final = (4, 2)

_PACKAGES: Final = ("pyspark", "pyarrow", "pandas")
"""Spark's own Arrow workers ask for pandas."""


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
