"""The comparison of two checkouts' processor time, here of this checkout with itself."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kit.deadlines import patience_s


def test_a_checkout_compared_with_itself(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / ".venv").symlink_to(sys.prefix)
    run = subprocess.run(
        [sys.executable, "-m", "bench.processor", other, "put_1", "--pairs", "1", "--folder", tmp_path],
        capture_output=True,
        text=True,
        timeout=patience_s(120),
        check=True,
    )
    found = re.fullmatch(
        r"put_1 +([\d.]+) µs → +([\d.]+) µs +([\d.]+) .*\nput_1 \(client\) +[\d.]+ µs → .*\n", run.stdout
    )
    assert found is not None, run.stdout
    other_us, this_us, ratio = map(float, found.groups())
    assert min(other_us, this_us) > 10, "no put takes less"
    assert abs(ratio - this_us / other_us) < 0.01
