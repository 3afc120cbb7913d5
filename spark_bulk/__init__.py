"""x"""

from __future__ import annotations

from typing import Any, Final

from log_tier.errors import InvalidRequest

__all__ = ["register"]

_SPARK_MIN: Final = (4, 2)


def register(spark: Any) -> None:
    """Make `format("duramen")` known to a SparkSession.

    Raises `InvalidRequest` where PySpark, PyArrow or pandas is not installed, or too old.
    """
    try:
        import pandas  # noqa: F401 - Spark's Arrow workers ask for it
        import pyarrow  # noqa: F401
        import pyspark
    except ImportError as error:
        raise InvalidRequest(
            f"Spark needs the extra `spark`, here and on every executor: pip install 'duramen[spark]' ({error}); and "
            "Java 17 or newer, from the system"
        ) from error
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < _SPARK_MIN:
        raise InvalidRequest(
            f"PySpark {pyspark.__version__} is too old: the data source API that Duramen uses came with "
            f"{'.'.join(map(str, _SPARK_MIN))}; pip install --upgrade 'duramen[spark]'"
        )
    from spark_bulk.source.data_source import DuramenDataSource

    spark.dataSource.register(DuramenDataSource)
