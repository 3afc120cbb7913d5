"""Every file of an index, damaged in every way at rest, after a clean stop and after a kill: what is served is right,
or it is refused with a typed error; never wrong, never the end of the process. `duramen log verify` finds it.

`make test` takes one case of forty, `DURAMEN_CAMPAIGN=1` all.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from kit.storage.damaged_server import DamagedServer, fill
from kit.storage.file_damages import ENTRY_FIELDS, damages_of

from duramen.server.wiring.folder_verification import FolderVerification

pytestmark = [pytest.mark.embedded_log_only, pytest.mark.campaign]

ONE_OF = 1 if os.environ.get("DURAMEN_CAMPAIGN") == "1" else 40
STOPS = ("clean", "killed")
FILES = ("data.mdb", "index.json", "lock.mdb")


class Case(NamedTuple):
    """One damage of one file."""

    stop: str
    file: Path
    """Below the data folder."""
    damage: str
    data: bytes | None

    @property
    def is_promised(self) -> bool:
        """Is it served right or refused? Not what changes inside an entry of an index without a checksum."""
        return self.stop == "clean" or not self.damage.endswith(ENTRY_FIELDS)

    @property
    def is_found(self) -> bool:
        """Does a verification find it? LMDB's table of readers is made anew by who opens the file first; a killed
        process leaves pages that nobody reads, and an older file is as good as one that lags."""
        return self.file.name == "index.json" or (self.file.name == "data.mdb" and self.stop == "clean")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder at its first close, and at two second ends."""
    folder = tmp_path_factory.mktemp("damaged")
    fill(folder / "older", half=0, clean=True)
    for stop in STOPS:
        copy(folder / "older", folder / stop)
        fill(folder / stop, half=1, clean=stop == "clean")
    return folder


def copy(source: Path, target: Path) -> None:
    """With its times, and without the zeros that a log reserves."""
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)


def cases(folders: Path) -> Iterator[Case]:
    for stop in STOPS:
        (table,) = (folders / stop / "index").iterdir()
        for name in FILES:
            file = Path("index", table.name, "0", name)
            before, others = folders / "older" / file, folders / stop / file.parent.with_name("1") / name
            found = (folders / stop / file).read_bytes()
            for damage, data in damages_of(name, found, older=before.read_bytes(), other=others.read_bytes()):
                yield Case(stop, file, damage, data)


def test_what_is_damaged_is_served_right_or_refused(folders: Path, tmp_path: Path) -> None:
    server, wrong, looked = DamagedServer(), list[str](), 0
    try:
        for case in list(cases(folders))[::ONE_OF]:
            data = tmp_path / "data"
            copy(folders / case.stop, data)
            if case.data is None:
                (data / case.file).unlink()
            else:
                (data / case.file).write_bytes(case.data)
            findings = [finding for finding in FolderVerification(data).findings() if finding.is_damage]
            served = server.look(data)
            outcome = f"{case.stop}, {case.file.name}, {case.damage}: {served}, {len(findings)} findings"
            is_right = served.get("wrong") == [] or "refused" in served
            if (case.is_promised and not is_right) or "crash" in served or "bug" in served:
                wrong.append(outcome)
            if (case.is_found or (case.is_promised and served.get("wrong") != [])) and not findings:
                wrong.append(f"not found at rest: {outcome}")
            if any(str(case.file.parent) not in finding.message for finding in findings):
                wrong.append(f"not named: {outcome}")
            subprocess.run(["rm", "-r", str(data)], check=True)
            looked += 1
    finally:
        server.close()
    assert not wrong, "\n".join(wrong)
    assert looked > 10
