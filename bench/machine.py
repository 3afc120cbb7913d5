"""What a reader must know about the machine: its kind, not its name."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from typing import Final

__all__ = ["describe", "file_system_type", "label"]

_MEMORY_FILE_SYSTEMS: Final = frozenset({"tmpfs", "ramfs"})


def describe(folder: Path) -> dict[str, str]:
    """Cores, memory, processor, kernel, Python and the file system under `folder`; no host name, no path."""
    kind = file_system_type(folder)
    if kind in _MEMORY_FILE_SYSTEMS:
        kind += " (MEMORY: syncs cost nothing here, durable figures mean nothing)"
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / (1 << 30):.0f} GiB",
        "processor": _processor(),
        "kernel": f"{platform.system()} {_kernel()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "file system": kind,
        "disk cache": _disk_cache(folder),
    }


def label() -> str:
    """The machine in a file name: `2cores-linux6.1-py3.11`."""
    kernel = ".".join(_kernel().split(".")[:2])
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{os.cpu_count()}cores-{platform.system().lower()}{kernel}-py{python}"


def file_system_type(folder: Path) -> str:
    """The type of the file system that holds `folder`, from the longest mount point above it."""
    target = folder.resolve()
    best, kind = -1, "unknown"
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount_point, mounted_kind, *_ = line.split()
        if target.is_relative_to(mount_point) and len(mount_point) >= best:
            best, kind = len(mount_point), mounted_kind
    return kind


def _disk_cache(folder: Path) -> str:
    """What the kernel believes of the disk under `folder`: behind a write-back cache every sync sends a flush.

    How much a flush costs is for the floors to show: a virtual disk may answer one sooner than any medium could.
    """
    device = os.stat(folder).st_dev
    block = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    # A partition has no queue of its own; its disk is the folder above.
    for queue in (block / "queue", block.parent / "queue"):
        if (queue / "write_cache").exists():
            return (queue / "write_cache").read_text().strip()
    return "unknown"


def _kernel() -> str:
    """The numbers of the release only: what follows them may name a provider."""
    found = re.match(r"[0-9.]+[0-9]", platform.release())
    return found.group() if found else "unknown"


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()
