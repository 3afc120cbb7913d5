from __future__ import annotations

import mmap
import re
from pathlib import Path

from spark_bulk.build.mapped_memory import release_mapping

SIZE = 32 << 20


def resident_bytes(file: Path) -> int:
    """What this process holds of its mapping of a file."""
    text = Path("/proc/self/smaps").read_text()
    found = re.search(rf"{re.escape(str(file))}\n(?:.*\n)*?Rss:\s+(\d+) kB", text)
    assert found is not None, f"{file} is not mapped"
    return int(found[1]) * 1024


def test_what_was_read_is_given_back_and_can_be_read_again(tmp_path: Path) -> None:
    file = (tmp_path / "mapped file").resolve()
    file.write_bytes(bytes(range(256)) * (SIZE // 256))
    with open(file, "rb") as source, mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[::4096]) == 0
        assert resident_bytes(file) == SIZE
        assert release_mapping(file) == 1
        assert resident_bytes(file) < SIZE / 8
        assert mapped[4095:4098] == b"\xff\x00\x01"


def test_a_file_that_is_not_mapped_is_no_trouble(tmp_path: Path) -> None:
    assert release_mapping(tmp_path / "nothing") == 0
