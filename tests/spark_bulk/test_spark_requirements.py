"""What is missing is named, with what to do."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

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


def test_a_python_of_spark_that_lacks_the_package(tmp_path: Path) -> None:
    """Spark starts the `python3` of the path, also where the driver is a Python of an environment not active."""
    other = tmp_path / "python3"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -S -P "$@"\n')
    other.chmod(0o755)
    with pytest.raises(InvalidRequest) as found:
        requirements.check_interpreter(str(other))
    assert str(found.value) == (
        f"Spark runs {other}, which cannot import spark_bulk: set PYSPARK_PYTHON={sys.executable} before the session "
        "begins, or activate the environment in which Duramen is installed"
    )


@pytest.mark.parametrize("python", [sys.executable, "environment/bin/python", "no-such-python"])
def test_a_python_that_has_it_or_is_elsewhere(python: str) -> None:
    requirements.check_interpreter(python)
