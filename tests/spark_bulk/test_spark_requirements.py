"""What is missing is named, with what to do."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

import spark_bulk
from log_tier.model.errors import InvalidRequest
from spark_bulk.runtime import requirements


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow", "pandas"])
def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def version(name: str) -> str:
        if name == missing:
            raise PackageNotFoundError(name)
        return "4.3.0"

    monkeypatch.setattr(requirements, "version", version)
    with pytest.raises(InvalidRequest, match=rf"{missing} is not installed: pip install 'duramen\[spark\]'.* Java 17"):
        spark_bulk.register(None)


def test_a_spark_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "version", lambda name: "4.1.3")
    with pytest.raises(InvalidRequest, match=r"PySpark 4.1.3 is too old: Duramen needs 4.2 or newer"):
        requirements.check_packages()
