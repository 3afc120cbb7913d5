"""A process that has collected the tests once, and forks for each mutant."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import pytest

from .changes import Mutant
from .line_map import ROOT, LineMap
from .statements import lines_of_statement
from .transplant import CANNOT_TRANSPLANT, Functions, live_functions, transplant

__all__ = ["Fate", "MutantRuns"]

_LATE_S: Final = 20.0
"""A test that hangs ends a mutant this long after it should have ended, and after ten times its time."""

_BEGUN: Final = b"."
_SURVIVED: Final = b"s"
_KILLED: Final = b"k"
_NOT_PUT: Final = b"n"
"""What a child writes into its pipe: a test begins; how its work ends."""


class Fate(NamedTuple):
    """What became of a mutant."""

    mutant: Mutant
    killer: str
    """The test, or what it did; empty for a survivor."""
    ran: int
    reach: int
    """How many tests ran of how many that reach the statement."""
    took_s: float
    unfit: str = ""
    """Why the mutant could not be tried."""


class MutantRuns:
    """A plugin whose test loop runs mutants in place of tests. `say` hears of each as soon as its fate is known."""

    def __init__(self, mutants: Sequence[Mutant], lines: LineMap, budget_s: float, say: Callable[[Fate], None]) -> None:
        self._mutants = mutants
        self._lines = lines
        self._budget_s = budget_s
        self._say = say
        self._failed = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Examples of hypothesis: the same for each mutant, none kept, and none made smaller."""
        from hypothesis import Phase, settings  # pytest complains if this was imported before it

        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", deadline=None, database=None, derandomize=True, phases=phases)
        settings.load_profile("mutants")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants, one after the other."""
        items = {item.nodeid: item for item in session.items}
        functions = live_functions(ROOT)
        folder = session.config.getoption("basetemp")
        for mutant in self._mutants:
            self._say(self._fate(mutant, items, functions))
            shutil.rmtree(folder, ignore_errors=True)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def _fate(self, mutant: Mutant, items: dict[str, pytest.Item], functions: Functions) -> Fate:
        began_s = time.monotonic()
        source = (ROOT / mutant.path).read_text()
        tests = self._lines.tests_of(mutant.path, lines_of_statement(source, mutant.line))
        names = [each for each in tests if each in items]
        if not names:
            return Fate(mutant, "", 0, 0, 0.0)
        pipe, child_pipe = os.pipe()
        child = os.fork()
        if not child:
            self._child([items[each] for each in names], mutant, source, functions, child_pipe)
        os.close(child_pipe)
        last, killer, end = self._follow(child, pipe, names)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what tests started, too
        os.waitpid(child, 0)
        took_s = time.monotonic() - began_s
        return Fate(mutant, killer, last + 1, len(names), took_s, CANNOT_TRANSPLANT if end == _NOT_PUT else "")

    def _follow(self, child: int, pipe: int, names: Sequence[str]) -> tuple[int, str, bytes]:
        """The number of the last test that began, the killer, and how the child's work ended."""
        last = -1
        with os.fdopen(pipe, "rb", buffering=0) as reported:
            while True:
                limit_s = _LATE_S + 10 * (self._lines.seconds[names[last]] if last >= 0 else 0)
                if not select.select([reported], [], [], limit_s)[0]:
                    assert last >= 0, f"a child began no test within {limit_s:.0f} s"
                    return last, f"{names[last]} (no end within {limit_s:.0f} s)", _KILLED
                some = reported.read(4096)
                last += some.count(_BEGUN)
                if not some:
                    assert last >= 0, "a child ended before its first test"
                    return last, f"{names[last]} (ends the process)", _KILLED
                if some[-1:] == _KILLED:
                    return last, names[last], _KILLED
                if some[-1:] != _BEGUN:
                    return last, "", some[-1:]

    def _child(
        self, items: Sequence[pytest.Item], mutant: Mutant, source: str, functions: Functions, pipe: int
    ) -> None:
        """In the fork: put the mutant in, run the tests, and end. Does not return."""
        try:
            os.setsid()
            if transplant(functions, ROOT / mutant.path, source, mutant.changed(source)):
                os.write(pipe, _NOT_PUT)
            else:
                nowhere = os.open(os.devnull, os.O_RDWR)
                for each in (0, 1, 2):
                    os.dup2(nowhere, each)
                os.write(pipe, _KILLED if self._kills(items, pipe) else _SURVIVED)
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(0)

    def _kills(self, items: Sequence[pytest.Item], pipe: int) -> bool:
        left_s = self._budget_s
        for item, following in zip(items, [*items[1:], None], strict=True):
            if left_s <= 0:
                break
            left_s -= self._lines.seconds[item.nodeid]
            os.write(pipe, _BEGUN)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failed:
                return True
        return False
