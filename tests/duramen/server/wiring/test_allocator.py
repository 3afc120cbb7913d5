"""A server's buffers of 1 MiB are made of memory that it has already."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Final

import pytest

_ROUNDS: Final = 50
_PAGES_OF_A_ROUND: Final = 8 * 256

# Eight buffers at once, as a stream of pieces has on its way.
_BUFFERS: Final = f"""
import resource
from duramen.server.wiring.allocator import keep_large_buffers

KEEP
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range({_ROUNDS}):
        held = [b"x" * (1 << 20) for _ in range(8)]
        del held
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


def _faults(keep: str, **environment: str) -> int:
    program = _BUFFERS.replace("KEEP", keep)
    of_glibc = ("MALLOC_", "GLIBC_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(of_glibc)}
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**inherited, **environment}, capture_output=True, text=True, check=True
    )
    return int(ran.stdout)


@pytest.mark.skipif(not hasattr(os, "confstr") or "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="not glibc")
def test_memory_of_large_buffers_is_used_again() -> None:
    assert _faults("") > _ROUNDS * _PAGES_OF_A_ROUND / 2, "glibc keeps it by itself: nothing is left to do here"
    assert _faults("keep_large_buffers()") < _PAGES_OF_A_ROUND


@pytest.mark.skipif(not hasattr(os, "confstr") or "CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="not glibc")
def test_bounds_that_an_operator_has_set_stay() -> None:
    bound = {"MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_THRESHOLD_": "65536"}
    assert _faults("keep_large_buffers()", **bound) > _ROUNDS * _PAGES_OF_A_ROUND / 2
