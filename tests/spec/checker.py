"""The model checker TLC, as `docs/spec/check` runs it."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kit.deadlines import patience_s

from spec.definitions import FOLDER, TOP

__all__ = ["Checked", "check", "missing", "models", "run_tlc"]

LIBRARIES: Final = TOP / ".tlc" / "libs"

_FINISHED: Final = re.compile(
    r"^(\d+) states generated, (\d+) distinct states found, (\d+) states left on queue", re.MULTILINE
)
_VIOLATED: Final = re.compile(
    r"^Error: (?:Invariant|Action property|Temporal property) (\w+) (?:is|was) violated", re.MULTILINE
)
_TEMPORAL: Final = "Error: Temporal properties were violated"
_FIRED: Final = re.compile(r"^<(\w+) line [^>]*>: (\d+):(\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Checked:
    """What TLC says about a model."""

    states: int
    """Distinct ones."""
    left: int
    """Found and not visited; 0: every state was visited."""
    violated: str
    """The property that does not hold; empty: all hold."""
    fired: frozenset[str]
    """The actions that lead from one state to another."""
    output: str


def missing() -> str:
    """Why there is no checker here; empty where there is one."""
    for command in ("java", "mvn"):
        if shutil.which(command) is None:
            return f"{command} is missing: TLC needs Java 17 and Maven"
    return "" if any(LIBRARIES.glob("*.jar")) else "TLC is not fetched: docs/spec/fetch"


def models(specification: str) -> list[str]:
    """The names of its models, for `docs/spec/check`."""
    return sorted(path.stem for path in FOLDER.glob(f"{specification}-*.cfg"))


def check(model: str, folder: Path, *, bug: str = "none", only: str = "", timeout_s: float = 900.0) -> Checked:
    """Have a model checked, in a folder of the test's own. `bug`: the mistake that is planted. `only`: the one property
    that is looked at.
    """
    specification = model.partition("-")[0]
    text = (FOLDER / f"{model}.cfg").read_text(encoding="utf-8")
    assert text.count('Bug = "none"') == 1, f"{model}.cfg plants a mistake of its own"
    text = text.replace('Bug = "none"', f'Bug = "{bug}"')
    if only:
        kind = next(line.split()[0] for line in text.splitlines() if only in line.split()[1:])
        lines = [line for line in text.splitlines() if not line.startswith(("INVARIANTS", "PROPERTIES"))]
        text = "\n".join([*lines, f"{kind} {only}"])
    for path in FOLDER.glob("*.tla"):
        shutil.copy(path, folder)
    (folder / "model.cfg").write_text(text, encoding="utf-8")
    return run_tlc(specification, folder, only=only, timeout_s=timeout_s)


def run_tlc(module: str, folder: Path, *, only: str = "", timeout_s: float = 300.0) -> Checked:
    """Check `module` of a folder with its `model.cfg`, on one core."""
    command = ["java", "-XX:+UseSerialGC", "-Xmx2g", f"-Djava.io.tmpdir={folder}", "-cp", f"{LIBRARIES}/*", "tlc2.TLC"]
    command += ["-workers", "1", "-deadlock", "-coverage", "60", "-metadir", str(folder / "states")]
    done = subprocess.run(
        [*command, "-config", "model.cfg", f"{module}.tla"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patience_s(timeout_s),
        check=False,
    )
    output = done.stdout + done.stderr
    finished, violated = _FINISHED.search(output), _VIOLATED.search(output)
    assert finished is not None, f"TLC did not come to an end:\n{output[-4000:]}"
    name = violated[1] if violated is not None else only if _TEMPORAL in output else ""
    assert name or "No error has been found" in output, f"TLC found an error that is no violation:\n{output[-4000:]}"
    fired = frozenset(action for action, _, count in _FIRED.findall(output) if int(count))
    return Checked(int(finished[2]), int(finished[3]), name, fired, output)
