"""Barriers: from a barrier on the other version answers, with the verdicts that the first one gave."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from kit.deadlines import patience_s, until
from kit.index.one_replica import replica_setting
from kit.index.version_setting import DEADLINE_S, VersionSetting, applied
from kit.log.stored_log import Said, add, delete, put

from log_tier.model.batch import Batch
from log_tier.model.errors import (
    VersionMissing,
)
from log_tier.model.identifiers import Offset
from log_tier.model.record import Condition, Operation
from serving_tier.fold.verdicts import Outcome, Verdict
from serving_tier.index.lmdb.lmdb_index import LmdbIndex
from serving_tier.replica import apply as module
from serving_tier.replica.observer import ReplicaEvent
from serving_tier.replica.replica import Replica
from serving_tier.replica.standby import StandbyVersions


@pytest.fixture
async def setting(tmp_path: Path) -> AsyncIterator[VersionSetting]:
    async with replica_setting(tmp_path) as made:
        yield VersionSetting(made.log, made.topic, made.applier, made.folder)


async def test_the_content_is_the_versions_from_the_barrier_on(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"old", b"1"), put(b"both", b"1"), put(b"kept", b"1"))
        await setting.write(put(b"both", b"2"), delete(b"gone"))
        await setting.stage(replica, 2, {b"both": b"x", b"gone": b"x", b"new": b"x"}, base=base)
        await setting.write(put(b"late", b"3"))
        before = await setting.write(add(b"n", b"5"))
        await applied(replica, before)
        assert replica.index.get_value(b"old") == b"1"
        assert replica.index.get_value(b"new") is None
        barrier = await setting.swap(2)
        await applied(replica, barrier)
        assert (replica.index.version, replica.index.live.since) == (2, barrier)
        assert [key for key, _ in replica.index.scan(b"", None).entries] == [b"both", b"late", b"n", b"new"]
        assert replica.index.get_value(b"both") == b"2", "written after the version's base"
        assert replica.index.get(b"new") == (b"x", base, 0)
        after = await setting.write(put(b"old", b"4"), add(b"n", b"1"))
        await applied(replica, after)
        assert replica.index.get_value(b"n") == b"6"


async def test_rolling_back_is_another_barrier(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"), put(b"b", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        await setting.swap(2)
        await setting.write(put(b"b", b"2"))
        await applied(replica, await setting.swap(1))
        assert replica.index.version == 1
        found = replica.index.get_many([b"a", b"b"]).values
        assert found == [b"1", b"2"], "and what was written meanwhile"
        await applied(replica, await setting.swap(2))
        assert replica.index.get_value(b"a") == b"x"


async def test_a_verdict_stays_what_it_was(setting: VersionSetting) -> None:
    """What the live version decided is the truth in the other one as well, and after the swap."""
    absent, present = Condition.ABSENT, Condition.PRESENT
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"there", b"1"), put(b"n", b"1"))
        first = Offset(base + 1)
        await setting.write(put(b"there", b"2", condition=absent))  # rejected: it is there in version 1
        await setting.write(put(b"elsewhere", b"2", condition=absent))  # accepted, though version 2 has it
        await setting.write(add(b"n", b"1"), producer_id=9, sequence=0)
        await setting.write(add(b"n", b"1"), producer_id=9, sequence=0)  # the same again
        last = await setting.write(put(b"there", b"3", condition=present))
        await applied(replica, last)
        outcomes = replica.index.outcomes(first, last)
        assert [outcomes[Offset(at)].verdict for at in (first, first + 3)] == [
            Verdict.CONDITION_FAILED,
            Verdict.ACCEPTED,
        ]
        assert outcomes[Offset(first + 3)].duplicate_of == first + 2
        await setting.stage(replica, 2, {b"elsewhere": b"x", b"n": b"10"}, base=base)
        barrier = await setting.swap(2)
        await applied(replica, barrier)
        assert replica.index.outcomes(first, last) == outcomes
        values = {key: entry.value for key, entry in replica.index.scan(b"", None).entries}
        assert values == {b"elsewhere": b"2", b"n": b"11", b"there": b"3"}
        again = await setting.write(add(b"n", b"1"), producer_id=9, sequence=0)
        await applied(replica, again)
        assert replica.index.outcomes(again, again)[again].duplicate_of == first + 2


async def test_an_update_that_another_version_cannot_take_changes_nothing_there(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"n", b"1"))
        await setting.stage(replica, 2, {b"n": b"word"}, base=base)
        last = await setting.write(add(b"n", b"1"))
        await applied(replica, await setting.swap(2))
        assert replica.index.get_value(b"n") == b"word"
        assert replica.index.outcomes(last, last) == {last: Outcome(result=b"2")}


async def test_a_barrier_waits_for_the_version(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        missing: list[object] = []
        replica.owner = lambda found, event: missing.append(found.awaits if event == "version_missing" else event)
        base = await setting.write(put(b"a", b"1"))
        await setting.write(put(b"a", b"2"))
        barrier = await setting.swap(2)
        last = await setting.write(put(b"b", b"3"))
        await until(lambda: bool(missing))
        assert (replica.applied, replica.index.get_value(b"a")) == (barrier - 1, b"2"), "what it has, it serves"
        awaited = missing[0]
        assert isinstance(awaited, VersionMissing)
        assert awaited.fields == {"version": 2, "offset": barrier}
        await setting.stage(replica, 2, {b"x": b"x"}, base=base)
        await applied(replica, last)
        assert [key for key, _ in replica.index.scan(b"", None).entries] == [b"a", b"b", b"x"]
        assert replica.awaits is None


async def test_a_barrier_is_passed_when_the_version_has_come_and_not_at_the_next_look(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay over many clearings waits once for each, as long as its version takes."""
    monkeypatch.setattr(module, "_ASK_AGAIN_S", 3600.0)
    base = await setting.write(put(b"a", b"1"))
    versions = range(2, 22)
    for number in versions:
        await setting.swap(number)
        last = await setting.write(put(b"written behind %d" % number, b"v"))
    asked: list[int] = []
    async with setting.replica("a") as replica, asyncio.TaskGroup() as staging:

        def bring(found: Replica, event: ReplicaEvent) -> None:
            if event == "version_missing":
                assert found.awaits is not None
                asked.append(int(str(found.awaits.fields["version"])))
                staging.create_task(setting.stage(found, asked[-1], {b"x": b"x"}, base=base))

        replica.owner = bring
        await applied(replica, last)
        assert asked == list(versions), "each was asked for once"
        assert replica.index.version == versions[-1]


async def test_a_version_that_does_not_come_is_asked_for_again(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ASK_AGAIN_S", 0.001)
    async with setting.replica("a") as replica:
        asked: list[ReplicaEvent] = []
        replica.owner = lambda _, event: asked.append(event)
        await setting.write(put(b"a", b"1"))
        await setting.swap(2)
        await until(lambda: len(asked) > 2)
        assert set(asked) == {"version_missing"}


async def test_a_barrier_that_comes_too_late_changes_nothing(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"x": b"x"}, base=base)
        await setting.swap(2, job=10)
        await setting.swap(1, job=12)
        late = await setting.swap(2, job=11)
        await applied(replica, late)
        assert replica.index.version == 1


async def test_several_barriers_in_one_chunk(setting: VersionSetting) -> None:
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
    async with setting.replica("a") as replica:
        await replica.versions.wait_level(2)
    for number in range(5):
        await setting.swap(2 - number % 2)
        last = await setting.write(put(b"k%d" % number, b"v"))
    async with setting.replica("a") as replica:
        await applied(replica, last)
        assert replica.index.version == 2
        assert replica.index.count() == 6


async def test_a_run_is_folded_once_per_index_whatever_barriers_are_in_it(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No transaction is aborted at a barrier, and nothing that was applied is folded again."""
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
    first = Offset(base + 1)
    for number in range(3):
        await setting.swap(2 - number % 2)
        last = await setting.write(put(b"a", b"%d" % number), add(b"n", b"1"))
    folded: dict[Path, list[tuple[int, int]]] = {}
    inner = LmdbIndex.fold_in

    def counted(self: LmdbIndex, batches: Sequence[Batch], **how: object) -> object:
        folded.setdefault(self.path, []).append((self.applied + 1, batches[-1].header.last_offset))
        return inner(self, batches, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(LmdbIndex, "fold_in", counted)
    async with setting.replica("a") as replica:
        await applied(replica, last)
        await until(lambda: all(index.applied == last for index in replica.versions.indexes()))
        assert (replica.index.version, replica.index.get_value(b"n")) == (2, b"3")
    for runs in folded.values():
        assert runs[0][0] == first
        assert [begin for begin, _ in runs[1:]] == [end + 1 for _, end in runs[:-1]]
        assert len(runs) <= 6, "three barriers, and what lies between"
    assert len(folded) == 2


async def test_a_barrier_that_is_a_second_copy_changes_nothing(setting: VersionSetting) -> None:
    """Its producer used these sequences before: only the fold sees that."""
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
    barrier = Said(Operation.BARRIER, b"", json.dumps({"v": 1, "version": 2, "job": 9}).encode())
    await setting.write(put(b"b", b"1"), put(b"b", b"2"), put(b"b", b"3"), producer_id=9, sequence=0)
    last = await setting.write(put(b"b", b"1"), barrier, put(b"b", b"2"), producer_id=9, sequence=0)
    after = await setting.write(put(b"c", b"3"))
    async with setting.replica("a") as replica:
        await applied(replica, after)
        assert (replica.index.version, replica.index.live.job) == (1, -1)
        assert replica.index.outcomes(last, last)[last].duplicate_of == last - 3
        await replica.versions.wait_level(2)
        for index in (replica.index, replica.versions.level[2]):
            assert [index.get_value(key) for key in (b"b", b"c")] == [b"3", b"3"]


async def test_a_crash_between_two_indexes(setting: VersionSetting, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new version passed the barrier, the old one did not: the new one is live."""
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        inner = replica.index.fold_in

        def dies(batches: Sequence[Batch], **how: object) -> object:
            if "carried" in how:
                raise RuntimeError("the process dies here")
            return inner(batches)

        monkeypatch.setattr(replica.index, "fold_in", dies)
        barrier = await setting.swap(2)
        await until(lambda: replica.state == "stopped")
    async with setting.replica("a") as replica:
        assert (replica.index.version, replica.applied) == (2, barrier)
        await replica.versions.wait_level(1)


async def test_nobody_reads_the_barriers_offset_in_the_old_version(
    setting: VersionSetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old index follows over the barrier only when the new one is read already."""
    may_follow = threading.Event()
    inner = StandbyVersions.follow_over

    def follow_over(self: StandbyVersions, *args: object) -> object:
        may_follow.wait(patience_s(DEADLINE_S))
        return inner(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(StandbyVersions, "follow_over", follow_over)
    async with setting.replica("a") as replica:
        base = await setting.write(put(b"a", b"1"))
        await setting.stage(replica, 2, {b"a": b"x"}, base=base)
        old = replica.index
        barrier = await setting.swap(2)
        await applied(replica, barrier)
        assert (replica.index.version, replica.index.get_value(b"a")) == (2, b"x")
        assert (replica.applied, old.applied) == (barrier, barrier - 1)
        may_follow.set()
        await until(lambda: old.applied == barrier)


@pytest.mark.parametrize("seed", range(6))
async def test_replicas_agree_however_they_came_here(setting: VersionSetting, seed: int) -> None:
    """One has the version early, one in the middle of the writes, one comes to the barrier without it, one is
    restarted: at the end they hold the same, and every outcome is what it was when it was decided."""
    chance = random.Random(seed)
    keys = [b"k%d" % n for n in range(6)]

    async def write_some() -> Offset:
        for _ in range(chance.randint(5, 15)):
            key, kind = chance.choice(keys), chance.random()
            condition = chance.choice([Condition.NONE, Condition.NONE, Condition.ABSENT, Condition.PRESENT])
            said = (
                put(key, b"%d" % chance.randint(0, 9), condition=condition)
                if kind < 0.5
                else add(key, b"1")
                if kind < 0.8
                else delete(key)
            )
            producer = chance.choice([0, 5])
            last = await setting.write(said, producer_id=producer, sequence=chance.randint(0, 3) if producer else 0)
        return last

    content = {key: b"%d" % chance.randint(10, 99) for key in chance.sample(keys, 4)}
    base = await write_some()
    async with setting.replica("a") as early, setting.replica("b") as late, setting.replica("c") as at_the_barrier:
        await setting.stage(early, 2, content, base=base)
        await write_some()
        staging = asyncio.ensure_future(setting.stage(late, 2, content, base=base))
        decided = await write_some()
        await staging
        await applied(early, decided)
        outcomes = early.index.outcomes(Offset(0), decided)
        await setting.swap(2)
        await until(lambda: at_the_barrier.awaits is not None)
        await setting.stage(at_the_barrier, 2, content, base=base)
        await write_some()
        await setting.swap(1)
        between = await write_some()
        await applied(early, between)
        middle = early.index.digest()
        last = await setting.swap(2)
        for replica in (early, late, at_the_barrier):
            await applied(replica, last)
        digests = {replica.index.digest() for replica in (early, late, at_the_barrier)}
        assert len(digests) == 1
        others = {replica.versions.level[1].digest() for replica in (early, late, at_the_barrier)}
        assert others == {middle}
        for replica in (early, late, at_the_barrier):
            assert replica.index.outcomes(Offset(0), decided) == outcomes
    async with setting.replica("b") as restarted:
        assert {restarted.index.digest()} == digests
