"""Which tests reach which lines of the product, and how long each takes: one run under coverage."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import coverage
import pytest

__all__ = ["ROOT", "SOURCES", "TESTS", "LineMap", "product_files", "up_to_date"]

ROOT: Final = Path(__file__).resolve().parents[2]

SOURCES: Final = ("log_tier/embedded", "serving_tier/fold", "serving_tier/replica", "router/data/gather")

TESTS: Final = (
    "tests/log_tier/embedded",
    "tests/serving_tier/fold",
    "tests/serving_tier/index",
    "tests/serving_tier/replica",
    "tests/serving_tier/node",
    "tests/router/data",
    "tests/simulation",
)

_KEPT: Final = ROOT / ".data" / "mutants"


class LineMap:
    """What one test file reaches, for every test file."""

    def __init__(self, parts: Iterable[dict[str, Any]]) -> None:
        self.seconds: dict[str, float] = {}
        self._reached: dict[tuple[str, int], list[str]] = defaultdict(list)
        for part in parts:
            self.seconds |= part["seconds"]
            for test, files in part["lines"].items():
                for path, lines in files.items():
                    for line in lines:
                        self._reached[path, line].append(test)

    def tests_of(self, path: Path, lines: Sequence[int]) -> list[str]:
        """The tests that reach one of some lines: the quick ones first, and of these the near ones."""
        found = {test for line in lines for test in self._reached.get((str(path), line), ())}

        def late(test: str) -> tuple[float, str]:
            return self.seconds[test] * (1 + _distance(path, Path(test.split("::")[0]))) ** 2, test

        return sorted(found & self.seconds.keys(), key=late)


def _distance(product: Path, test: Path) -> int:
    """How many steps lie between the folder of a module and the one that a test file mirrors."""
    ours, theirs = product.parent.parts, test.parent.parts[1:]
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    return len(ours) + len(theirs) - 2 * common


def product_files() -> list[Path]:
    """The files that have mutants, relative to the repository."""
    return [path.relative_to(ROOT) for source in SOURCES for path in sorted((ROOT / source).rglob("*.py"))]


def up_to_date() -> LineMap:
    """The kept map; test files that changed run again, and all of them if the product did. Minutes for all."""
    files = [path for folder in TESTS for path in sorted((ROOT / folder).rglob("test_*.py"))]
    product = _digest(ROOT / path for path in product_files())
    stale = [path for path in files if not _is_kept(product, path)]
    if stale:
        _KEPT.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "mutants.line_map"]
        subprocess.run([*command, *map(str, stale)], cwd=ROOT, check=False, env=_environment())
    kept = [_kept_part(path) for path in files]
    return LineMap(json.loads(each.read_text()) for each in kept if each.is_file())


def _kept_part(test: Path) -> Path:
    return _KEPT / f"{test.relative_to(ROOT / 'tests').as_posix().replace('/', '.')}.json"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


def _is_kept(product: str, test: Path) -> bool:
    if not _kept_part(test).is_file():
        return False
    part = json.loads(_kept_part(test).read_text())
    return bool(part["product"] == product and part["test"] == _digest([test]))


def _digest(files: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in files:
        total.update(str(path).encode() + path.read_bytes())
    return total.hexdigest()


class _Recorder:
    """A plugin that gives every test a context of its own, and keeps what the passed ones of each file reached."""

    def __init__(self) -> None:
        sources = [str(ROOT / each) for each in SOURCES]
        self._coverage = coverage.Coverage(data_file=None, source=sources, config_file=False)
        self._coverage.set_option("run:disable_warnings", ["no-data-collected"])  # a test file may reach nothing
        self._file = ""
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()

    def pytest_sessionstart(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        file = item.nodeid.split("::")[0]
        if file != self._file:
            self._end_file()
            self._file = file
        self._coverage.switch_context(item.nodeid)
        began_s = time.monotonic()
        try:
            return (yield)
        finally:
            self._seconds[item.nodeid] = round(time.monotonic() - began_s, 4)
            self._coverage.switch_context("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        self._end_file()
        self._coverage.stop()

    def _end_file(self) -> None:
        """Write the part of a test file, so that a run that is interrupted goes on where it was."""
        if not self._file:
            return
        self._coverage.stop()
        data = self._coverage.get_data()
        lines: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for measured in data.measured_files():
            for line, tests in data.contexts_by_lineno(measured).items():
                for test in tests:
                    lines[test][str(Path(measured).relative_to(ROOT))].append(line)
        passed = {test: seconds for test, seconds in self._seconds.items() if test not in self._failed}
        file = ROOT / self._file
        part = {
            "product": _digest(ROOT / path for path in product_files()),
            "test": _digest([file]),
            "seconds": passed,
            "lines": {test: lines[test] for test in passed},
        }
        _kept_part(file).write_text(json.dumps(part))
        self._seconds.clear()
        self._coverage.erase()
        self._coverage.start()


def pytest_configure(config: pytest.Config) -> None:
    """pytest loads this module as a plugin (`-p`)."""
    config.pluginmanager.register(_Recorder())
