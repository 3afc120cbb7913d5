"""A node's disk: with no fault it is the kernel's; a fault meets the call that it was armed for, and no other one."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import lmdb
import pytest

from duramen.testing.machine.node_disk.failing_calls import FailingCalls
from duramen.testing.machine.node_disk.node_fault import COMMIT, FILL_INDEX, NODE_FAULTS, NodeFault, NodeFaultKind
from duramen.testing.machine.story import RunStory
from serving_tier.disk import KernelCalls, NodeDisk


class NodeClock:
    """Virtual time."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> NodeClock:
    return NodeClock()


@pytest.fixture
def failing(tmp_path: Path, clock: NodeClock) -> FailingCalls:
    return FailingCalls("n1", tmp_path, RunStory(clock), clock)


def check_everything(disk: NodeDisk, folder: Path) -> None:
    """Make each call once."""
    disk.make_folder(folder / "index" / "t" / "3.incoming")
    incoming = folder / "index" / "t" / "3.incoming"
    with disk.create(incoming / "file") as file:
        assert disk.write(file, b"content") == 7
        disk.sync(file)
    disk.link(incoming / "file", incoming / "second")
    disk.sync_file(incoming / "second")
    disk.unlink(incoming / "second")
    disk.unlink(incoming / "second")
    disk.rename(incoming, incoming.with_name("3"))
    disk.sync_folder(incoming.parent)
    assert (incoming.with_name("3") / "file").read_bytes() == b"content"
    disk.remove_tree(incoming.with_name("3"))
    disk.remove_folder(incoming.parent)
    assert not incoming.parent.exists()


@pytest.mark.parametrize("make", [lambda failing: failing, lambda _: KernelCalls()], ids=["failing", "kernel"])
def test_without_a_fault_it_does_what_it_says(
    make: Callable[[FailingCalls], NodeDisk], failing: FailingCalls, tmp_path: Path
) -> None:
    check_everything(make(failing), tmp_path)


@pytest.mark.parametrize("steps", range(11))
def test_each_call_fails_once_and_names_its_file(failing: FailingCalls, tmp_path: Path, steps: int) -> None:
    failing.arm(NodeFault(0.0, "n1", "failed", steps))
    with pytest.raises(OSError, match=str(tmp_path)) as raised:
        check_everything(failing, tmp_path)
    assert raised.value.errno == errno.EIO
    check_everything(failing, tmp_path / "again")


@pytest.mark.parametrize("kind", [kind for kind in NODE_FAULTS if kind != "short"])
def test_what_fails_has_done_nothing(failing: FailingCalls, tmp_path: Path, kind: NodeFaultKind) -> None:
    failing.arm(NodeFault(0.0, "n1", kind, 0, seconds=1.0))
    with pytest.raises(OSError, match="new"):
        failing.make_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_short_write_says_what_it_took(failing: FailingCalls, tmp_path: Path) -> None:
    failing.arm(NodeFault(0.0, "n1", "short", 0))
    with failing.create(tmp_path / "file") as file:
        assert failing.write(file, b"0123456789") == 5
        assert failing.write(file, b"56789") == 5
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_full_disk_has_room_again(failing: FailingCalls, clock: NodeClock, tmp_path: Path) -> None:
    failing.arm(NodeFault(0.0, "n1", "full", 0, seconds=2.0))
    for clock.now_s in (0.0, 1.9):
        with pytest.raises(OSError, match="No space left"):
            failing.create(tmp_path / "file")
    failing.unlink(tmp_path / "file")
    clock.now_s = 2.0
    failing.create(tmp_path / "file").close()


def test_a_process_that_has_ended_changes_nothing(failing: FailingCalls, tmp_path: Path) -> None:
    failing.arm(NodeFault(0.0, "n1", "end", 1))
    failing.make_folder(tmp_path / "one")
    for _ in range(2):
        with pytest.raises(OSError, match="one"):
            failing.remove_folder(tmp_path / "one")
    failing.restart()
    failing.remove_folder(tmp_path / "one")


def test_calm_disarms(failing: FailingCalls, tmp_path: Path) -> None:
    failing.arm(NodeFault(0.0, "n1", "full", 0, seconds=9.0))
    failing.arm(NodeFault(0.0, "n1", "failed", 0))
    failing.calm()
    check_everything(failing, tmp_path)


def test_it_counts_which_call_on_what_was_met(tmp_path: Path, clock: NodeClock) -> None:
    story, met = RunStory(clock), list[NodeFault]()
    disk = FailingCalls("n1", tmp_path, story, clock, met.append)
    disk.arm(NodeFault(0.0, "n1", "refused", 7))
    with pytest.raises(PermissionError):
        check_everything(disk, tmp_path)
    assert story.met == {"node disk refused: unlink of incoming": 1}
    assert [fault.kind for fault in met] == ["refused"]


def test_a_fault_waits_for_its_call_and_its_use(failing: FailingCalls, tmp_path: Path) -> None:
    failing.arm(NodeFault(0.0, "n1", "failed", 1, call="rename", use="incoming"))
    check_everything(failing, tmp_path)
    with pytest.raises(OSError, match=r"3\.incoming'$"):
        check_everything(failing, tmp_path)


def transactions(disk: NodeDisk, folder: Path, count: int) -> None:
    """Write a row in each of so many transactions."""
    folder.mkdir(exist_ok=True)
    with closing(disk.open_environment(folder)) as env:
        for number in range(count):
            with env.begin(write=True) as txn:
                txn.put(b"%d" % number, b"value")


def rows(folder: Path) -> int:
    with lmdb.open(str(folder)) as env, env.begin() as txn:
        return sum(1 for _ in txn.cursor())


@pytest.mark.parametrize(
    ("call", "steps", "left"),
    [(COMMIT, 0, 0), (COMMIT, 2, 2), (FILL_INDEX, 0, 3), (COMMIT, 3, 4)],
    ids=["first", "third", "fill", "fifth"],
)
@pytest.mark.parametrize("kind", ["failed", "no room", "end"])
def test_a_write_transaction_that_fails_has_written_nothing(
    failing: FailingCalls, tmp_path: Path, kind: NodeFaultKind, call: str, steps: int, left: int
) -> None:
    failing.arm(NodeFault(0.0, "n1", kind, steps, call=call))
    with pytest.raises(lmdb.Error, match=str(tmp_path)):
        transactions(failing, tmp_path / "index", 6)
    assert rows(tmp_path / "index") == left


def test_only_a_new_index_is_filled_and_only_a_fault_for_transactions_meets_them(
    failing: FailingCalls, tmp_path: Path
) -> None:
    transactions(failing, tmp_path / "index", 2)
    failing.arm(NodeFault(0.0, "n1", "failed", 0, call=FILL_INDEX))
    failing.arm(NodeFault(0.0, "n1", "failed", 0))
    transactions(failing, tmp_path / "index", 9)
    assert rows(tmp_path / "index") == 9
