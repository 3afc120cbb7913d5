"""The disk of one simulated node, through all its lives."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from io import FileIO, RawIOBase
from pathlib import Path
from typing import Any, Final

import lmdb

from duramen.testing.machine.node_disk.failing_environment import FailingEnvironment
from duramen.testing.machine.node_disk.node_fault import ERRORS, GROWING, SHARED_STORE, NodeFault
from duramen.testing.machine.story import RunStory
from serving_tier.disk import KernelCalls, OpenFile
from serving_tier.names import DATA_FILE, purpose

__all__ = ["FailingCalls"]


class FailingCalls:
    """A `NodeDisk` below `folder` whose calls meet the faults that were armed.

    `met` is called with each fault at the call that meets it, before that call fails; where the fault is the end of the
    process, it ends it.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        story: RunStory,
        now_s: Callable[[], float],
        met: Callable[[NodeFault], None] = lambda fault: None,
    ) -> None:
        self.name = name
        self._folder, self._story, self._now_s, self._met = folder, story, now_s, met
        self._kernel: Final = KernelCalls()
        self._armed: list[NodeFault] = []
        self._full_until_s = 0.0
        self.is_dead = False
        """Has the process ended at a call? Then every call fails until `restart`."""

    def arm(self, fault: NodeFault) -> None:
        """Have a fault wait for its call."""
        self._armed.append(fault)

    def restart(self) -> None:
        """The next life of the process begins. What is armed stays so; a full disk is full."""
        self.is_dead = False

    def calm(self) -> None:
        """Nothing fails from now on."""
        self._armed.clear()
        self._full_until_s = 0.0

    # --- the seam

    def create(self, path: Path) -> FileIO:
        self._step("create", path)
        return self._kernel.create(path)

    def write(self, file: RawIOBase, data: bytes | memoryview) -> int:
        is_short = self._step("write", Path(str(getattr(file, "name", "")))) and len(data) > 1
        return self._kernel.write(file, data[: len(data) // 2] if is_short else data)

    def sync(self, file: OpenFile) -> None:
        self._step("sync", Path(str(getattr(file, "name", ""))))
        self._kernel.sync(file)

    def sync_file(self, path: Path) -> None:
        self._step("sync", path)
        self._kernel.sync_file(path)

    def sync_folder(self, path: Path) -> None:
        self._step("sync_folder", path)
        self._kernel.sync_folder(path)

    def rename(self, old: Path, new: Path) -> None:
        self._step("rename", old)
        self._kernel.rename(old, new)

    def link(self, old: Path, new: Path) -> None:
        self._step("link", new)
        self._kernel.link(old, new)

    def unlink(self, path: Path) -> None:
        self._step("unlink", path)
        self._kernel.unlink(path)

    def make_folder(self, path: Path, *, exist_ok: bool = True) -> None:
        self._step("make_folder", path)
        self._kernel.make_folder(path, exist_ok=exist_ok)

    def remove_folder(self, path: Path) -> None:
        self._step("remove_folder", path)
        self._kernel.remove_folder(path)

    def remove_tree(self, path: Path) -> None:
        self._step("remove_tree", path)
        self._kernel.remove_tree(path)

    def open_environment(self, path: Path, **options: Any) -> Any:
        is_new = not (path / DATA_FILE).exists()
        env = self._kernel.open_environment(path, **options)
        return FailingEnvironment(env, partial(self._commit, path), is_new=is_new)

    def _commit(self, path: Path, call: str) -> None:
        try:
            self._step(call, path)
        except OSError as error:
            raise lmdb.Error(f"{path}: {error.strerror}") from error

    # --- faults

    def _step(self, call: str, path: Path) -> bool:
        """A call begins. True for a short write; raises `OSError` where it fails."""
        if self.is_dead:
            raise OSError(ERRORS["end"], os.strerror(ERRORS["end"]), str(path))
        if call in GROWING and self._now_s() < self._full_until_s:
            raise OSError(ERRORS["full"], os.strerror(ERRORS["full"]), str(path))
        if not self._armed:
            return False
        use = purpose(str(path.relative_to(self._folder))) if path.is_relative_to(self._folder) else SHARED_STORE
        for place, fault in enumerate(self._armed):
            if not fault.may_meet(call, use):
                continue
            if fault.steps > 0:
                self._armed[place] = replace(fault, steps=fault.steps - 1)
                continue
            del self._armed[place]
            return self._strike(fault, call, use, path)
        return False

    def _strike(self, fault: NodeFault, call: str, use: str, path: Path) -> bool:
        self._story.tell(self.name, f"disk: {fault.kind} at {call} of {path}")
        self._story.met[f"node disk {fault.kind}: {call} of {use}"] += 1
        if fault.kind == "full":
            self._full_until_s = self._now_s() + fault.seconds
        self.is_dead = fault.kind == "end"
        self._met(fault)
        if fault.kind == "short":
            return True
        raise OSError(ERRORS[fault.kind], os.strerror(ERRORS[fault.kind]), str(path))
