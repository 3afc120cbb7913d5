"""Files with a secret: written as a whole, for one user, never over another file."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from log_tier.model.errors import InvalidRequest
from log_tier.privacy.secret_files import check_new_secret_file, read_secret_file, write_secret_file


def test_a_secret_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "alice.token"
    before = os.umask(0)
    try:
        write_secret_file(file, "secret")
    finally:
        os.umask(before)
    assert (read_secret_file(file), file.stat().st_mode & 0o7777) == ("secret", 0o600)
    assert [path.name for path in tmp_path.iterdir()] == ["alice.token"]


def test_nothing_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "alice.token"
    write_secret_file(file, "first")
    for other in (file, tmp_path / "link"):
        if other is not file:
            other.symlink_to(tmp_path / "nowhere")
        with pytest.raises(InvalidRequest, match="never replaces another one"):
            write_secret_file(other, "second")
        with pytest.raises(InvalidRequest, match="never replaces another one"):
            check_new_secret_file(other)
    assert read_secret_file(file) == "first"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alice.token", "link"]
    with pytest.raises(InvalidRequest, match="is no folder"):
        check_new_secret_file(tmp_path / "none" / "alice.token")


def test_one_of_many_writers_wins(tmp_path: Path) -> None:
    file = tmp_path / "alice.token"
    wrote: list[str] = []
    start = threading.Barrier(8)

    def write(secret: str) -> None:
        start.wait()
        try:
            write_secret_file(file, secret)
        except InvalidRequest:
            return
        wrote.append(secret)

    threads = [threading.Thread(target=write, args=(f"secret{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrote == [read_secret_file(file)]
