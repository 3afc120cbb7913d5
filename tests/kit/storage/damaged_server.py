"""A database in a process of its own, because damaged files may end it: opened, compared, written, closed."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import duramen
from kit.client.server_process import read_line

__all__ = ["EXPECTED", "PARTITIONS", "DamagedServer", "fill"]

PARTITIONS: Final = 2
EXPECTED: Final = {b"key %03d" % number: b"value %03d " % number * 12 for number in range(240)}
"""What the table holds in the end; half of it at the first close."""

_ANSWER_S: Final = 120.0

_COMMAND: Final = (sys.executable, "-m", "kit.storage.damaged_server")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


def fill(folder: Path, *, half: int, clean: bool) -> None:
    """Write one half of `EXPECTED` in another process, and stop it cleanly, or without a chance to do anything."""
    subprocess.run([*_COMMAND, "fill", str(folder), str(half), str(int(clean))], check=True, env=_environment())


class DamagedServer:
    """`look()` says what a folder's database does; the process is started again where that ended it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def look(self, folder: Path) -> dict[str, Any]:
        """`wrong`: keys that are not as they should be; or `refused`: a typed error; or `bug`, or `crash`."""
        if self._process is None:
            self._process = subprocess.Popen(
                [*_COMMAND, "look"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
            )
        assert self._process.stdin is not None
        self._process.stdin.write(f"{folder}\n".encode())
        self._process.stdin.flush()
        line = read_line(self._process, _ANSWER_S)
        if not line:
            return {"crash": self.close()}
        found: dict[str, Any] = json.loads(line)
        return found

    def close(self) -> int:
        """End the process; its code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        assert process.stdin is not None
        assert process.stdout is not None
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
        return process.returncode


def _looked(folder: str) -> dict[str, Any]:
    try:
        with duramen.open(folder) as database:
            table = database.table("flights")
            found = dict(table.scan(level="strong"))
            wrong = [key for key in found.keys() | EXPECTED.keys() if found.get(key) != EXPECTED.get(key)]
            wrong += [key for key in list(EXPECTED)[::20] if table.get(key) != EXPECTED[key]]
            table.put(b"key 000", EXPECTED[b"key 000"])
            return {"wrong": sorted(str(key) for key in wrong)}
    except duramen.DuramenError as error:
        return {"refused": error.code, "message": error.message}
    except Exception as error:  # noqa: BLE001 - the test says which case it was
        return {"bug": repr(error)}


def _fill(folder: str, half: int, *, clean: bool) -> None:
    with duramen.open(folder) as database:
        table = database.table("flights") if half else database.create_table("flights", partitions=PARTITIONS)
        table.put_many(list(EXPECTED.items())[half * 120 : half * 120 + 120])
        assert len(dict(table.scan(level="strong"))) == (half + 1) * 120
        if not clean:
            os._exit(0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "fill":
        _fill(sys.argv[2], int(sys.argv[3]), clean=sys.argv[4] == "1")
    else:
        for line in sys.stdin:
            sys.stdout.write(json.dumps(_looked(line.strip())) + "\n")
            sys.stdout.flush()
