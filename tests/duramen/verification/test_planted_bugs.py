"""The checker finds what is broken: one bug is planted in a real server, and the invariant that it breaks is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from kit.client.checked import checked
from kit.client.planted_bugs import BUGS, Patch, loses_replies, slow_applies

RUN_S = 1.0

KINDS = {
    *(("write", "ok"), ("write", "rejected"), ("batch", "ok"), ("read", "ok"), ("scan", "ok")),
    *(("watch", "ok"), ("replica", "ok")),
}
"""What has to happen before it counts that nothing was found."""


@pytest.mark.parametrize(("plant", "broken"), BUGS, ids=[plant.__name__ for plant, _ in BUGS])
async def test_a_planted_bug_is_found_and_named(
    plant: Callable[[Patch], None], broken: set[str], tmp_path: Path, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    for seed in map(str, range(15)):  # on a busy machine one short run may do too little to meet the bug
        history, violations = await checked(tmp_path / seed, seed=seed)
        for violation in violations[:20]:
            assert set(violation.calls) <= {call.number for call in history.calls}
        if broken & {violation.invariant for violation in violations}:
            return
    raise AssertionError(f"fifteen runs found {violations[:3]}")


@pytest.mark.parametrize("seed", ["1", "2", "3"])
async def test_what_is_not_broken_is_not_named(seed: str, tmp_path: Path) -> None:
    missing = KINDS
    for turn in range(15):  # a run has its time, in which a busy machine may do a few calls, or none
        history, violations = await checked(tmp_path / str(turn), seed=f"{seed}.{turn}", seconds=RUN_S)
        assert violations == []
        missing = missing - {(call.kind, call.outcome) for call in history.calls}
        if not missing:
            return
    raise AssertionError(f"fifteen runs had no {missing}")


async def test_lost_replies_are_not_broken(tmp_path: Path, monkeypatch: Patch) -> None:
    """What a write returns after a retry is the offset of the copy that counts."""
    history, violations = await checked(tmp_path / "data", plant=lambda _: loses_replies(monkeypatch))
    assert violations == []
    assert len(history.log) > sum(call.outcome in ("ok", "rejected") for call in history.calls if call.kind == "write")


async def test_slow_is_not_broken(tmp_path: Path, monkeypatch: Patch) -> None:
    """The delay that the bugs above need is by itself none."""
    _, violations = await checked(tmp_path / "data", plant=lambda _: slow_applies(monkeypatch))
    assert violations == []
