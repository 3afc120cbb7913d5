"""A node asks its own replicas first. What they cannot answer, or not soon, is asked for at the other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kit.virtual_loop import run_virtually

from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import DuramenError, InvalidKey, NotHosted, ReplicaBehind, Unavailable
from log_tier.model.identifiers import Offset, Partition, PartitionId, TableId
from router.data.requests import OutcomesPart, ReadPart
from router.routing.local_first import LAG_PATIENCE_S, LocalFirstConnection

TIMEOUT_S: Final = 10.0
TABLE: Final = TableId("AAAAAAAAAAAAAAAAAAAAAA")
PARTS: Final = [PartitionId(TABLE, Partition(number)) for number in range(3)]
REMOTE: Final = Partition(2)


class ScriptedPlane:
    """Answers each part with its name, unless there is an error for it; a part that lags answers after so long."""

    def __init__(self, name: str, errors: dict[int, DuramenError] | None = None, lag_s: float = 0.0) -> None:
        self.name, self.errors, self.lag_s = name, errors or {}, lag_s
        self.asked: list[tuple[list[int], float]] = []
        """The partitions of each call, and the time it had."""
        entry = TableEntry(TABLE, "flights", 3, 2, ((Assignment("n1", "member"), Assignment("n2", "member")),) * 3)
        self.catalog = SimpleNamespace(map=ClusterMap(version=Offset(1), tables=PersistentMap({TABLE: entry})))
        self.node = SimpleNamespace(
            replica=lambda partition: SimpleNamespace(
                failure=None, state="closed" if partition.partition == REMOTE else "ready"
            )
        )

    async def read(self, parts: Sequence[ReadPart], *, timeout: float, patience: float = 0.0) -> list[Any]:
        return await self._answers(parts, timeout, patience)

    async def outcomes(self, parts: Sequence[OutcomesPart], *, timeout: float) -> list[Any]:
        return await self._answers(parts, timeout, 0.0)

    async def _answers(self, parts: Sequence[Any], timeout: float, patience: float) -> list[Any]:
        self.asked.append(([part.partition.partition for part in parts], round(timeout, 3)))
        if self.lag_s:
            await asyncio.sleep(min(self.lag_s, patience or timeout))
            if patience and patience < self.lag_s:
                return [ReplicaBehind("it lags", partition=part.partition.partition) for part in parts]
        return [self.errors.get(number, f"{self.name} {number}") for number in self.asked[-1][0]]


async def ask(here: ScriptedPlane, others: ScriptedPlane, kind: str = "read", **how: float) -> list[Any]:
    planes: Any = here, others
    connection = LocalFirstConnection(*planes)
    if kind == "read":
        reads = [ReadPart(partition, [b"k"]) for partition in PARTS]
        return list(await connection.read(reads, timeout=TIMEOUT_S, **how))
    outcomes = [OutcomesPart(partition, Offset(0), 0, Offset(0)) for partition in PARTS]
    return list(await connection.outcomes(outcomes, timeout=TIMEOUT_S))


@pytest.mark.parametrize("kind", ["read", "outcomes"])
@pytest.mark.parametrize("error", [Unavailable("it is put in place anew"), NotHosted("it has left")])
def test_what_a_replica_cannot_answer_is_asked_elsewhere(kind: str, error: DuramenError) -> None:
    async def run() -> None:
        here, others = ScriptedPlane("here", {1: error}), ScriptedPlane("others")
        assert await ask(here, others, kind) == ["here 0", "others 1", "others 2"]
        assert [partitions for partitions, _ in others.asked] == [[2], [1]]

    run_virtually(run())


@pytest.mark.parametrize("kind", ["read", "outcomes"])
def test_what_is_wrong_everywhere_is_asked_once(kind: str) -> None:
    async def run() -> None:
        wrong = InvalidKey("the key is empty")
        here, others = ScriptedPlane("here", {0: wrong}), ScriptedPlane("others")
        assert await ask(here, others, kind) == [wrong, "here 1", "others 2"]
        assert [partitions for partitions, _ in others.asked] == [[2]]

    run_virtually(run())


def test_the_others_say_why_nobody_answers() -> None:
    async def run() -> None:
        nobody = NotHosted("no reachable node holds it")
        here, others = ScriptedPlane("here", {1: Unavailable("it is away")}), ScriptedPlane("others", {1: nobody})
        assert await ask(here, others) == ["here 0", nobody, "others 2"]

    run_virtually(run())


def test_a_replica_that_lags_is_not_waited_for() -> None:
    """It could be behind for as long as the caller waits, where another replica answers at once."""

    async def run() -> None:
        here, others = ScriptedPlane("here", lag_s=5.0), ScriptedPlane("others")
        assert await ask(here, others) == ["others 0", "others 1", "others 2"]
        assert asyncio.get_running_loop().time() == LAG_PATIENCE_S
        assert others.asked == [([2], TIMEOUT_S), ([0, 1], pytest.approx(TIMEOUT_S, abs=LAG_PATIENCE_S))]

    run_virtually(run())


def test_who_names_a_patience_hears_that_a_replica_lags() -> None:
    async def run() -> None:
        here, others = ScriptedPlane("here", lag_s=5.0), ScriptedPlane("others")
        first, second, third = await ask(here, others, patience=0.5)
        assert (type(first), type(second), third) == (ReplicaBehind, ReplicaBehind, "others 2")
        assert asyncio.get_running_loop().time() == 0.5

    run_virtually(run())
