"""Routes, as scripts: what is known of the replicas, what they reply, and where a read goes next.

A script is blocks between blank lines: steps a line, `---`, and what came of each. Record again with DURAMEN_RECORD=1.
The read needs offset 5 and has a deadline of one second, on a virtual clock.

    n1 ready 4, n2 lost     the map names these two; n1 has applied 4, n2 does not answer
    first InvalidKey        a read: the replica asked first replies so, every other replica answers
    all Overloaded          a read: everybody replies so, every time
    moved NotHosted         as `first`; with that reply the map changes, and names n3 alone
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from kit.cluster.scripted_members import TABLE
from kit.golden import check_script
from kit.virtual_loop import run_virtually

from log_tier.catalog.catalog import MapFeed
from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.errors import (
    DeadlineExceeded,
    Disconnected,
    DuramenError,
    IndexDamaged,
    InvalidKey,
    NotHosted,
    OffsetTrimmed,
    Overloaded,
    ReplicaBehind,
    ShuttingDown,
    TableNotFound,
)
from log_tier.model.identifiers import Offset, Partition, PartitionId
from router.data.requests import ReadPart
from router.membership.views import NodeView, ReplicaView
from router.routing.choice import Fitness
from router.routing.routes import Routes
from router.routing.scatter import Scatter
from router.routing.targets import Through

SCRIPTS = sorted((Path(__file__).parent / "golden").glob("*.txt"))

DEADLINE_S: Final = 1.0
SHOWN_MAX: Final = 5
"""So many questions of a read are shown; how many there are depends on random pauses."""
NAME: Final = PartitionId(TABLE, Partition(0))
ANSWER: Final = "an answer"
SILENCE: Final = "silence"

ERRORS: Final[dict[str, Callable[[str], DuramenError]]] = {
    kind.__name__: kind
    for kind in (
        DuramenError,
        Disconnected,
        IndexDamaged,
        InvalidKey,
        NotHosted,
        OffsetTrimmed,
        Overloaded,
        ReplicaBehind,
        ShuttingDown,
        TableNotFound,
    )
}
REPLIES: Final = (ANSWER, SILENCE, *ERRORS)


def view_of(node: str, words: Sequence[str]) -> NodeView:
    """`ready 4`, `unheard` (the node lives and has not spoken of this replica), `lost`."""
    if words[0] == "lost":
        return NodeView(node, "host:1", reason="it was lost")
    replicas = {} if words[0] == "unheard" else {NAME: ReplicaView(Offset(int(words[1])), Offset(5), 0, words[0])}
    return NodeView(node, "host:1", alive=True, replicas=replicas)


class Nodes:
    """The map and the membership that a line describes."""

    def __init__(self, line: str) -> None:
        self.members: dict[str, Any] = {}
        self.server = False
        roles: dict[str, str] = {}
        for each in line.split(", "):
            node, *words = each.split()
            if node == "server":
                self.server = True
                continue
            if words[0] == "joining":
                roles[node] = words.pop(0)
            view = view_of(node, words)
            # The loads differ by more than the noise that the choice allows for: who has less is chosen.
            self.members[node] = SimpleNamespace(id=node, view=view, alive=view.alive, load=10 * len(self.members))
        maps: Any = MapFeed()
        self._maps: MapFeed = maps
        self.advance(*(Assignment(node, roles.get(node, "member")) for node in self.members))  # type: ignore[arg-type]
        self.members["n3"] = self.members.get("n3") or SimpleNamespace(
            id="n3", view=view_of("n3", ["ready", "5"]), alive=True, load=99
        )
        membership: Any = SimpleNamespace(members=self.members, failures=self._failures)
        through: Any = SimpleNamespace()
        self.routes = Routes(maps, membership, through=Through(through) if self.server else None)

    def advance(self, *holders: Assignment) -> None:
        table = TableEntry(TABLE, "flights", 1, 2, (holders,))
        self._maps.advance(ClusterMap(version=Offset(self._maps.map.version + 1), tables=PersistentMap({TABLE: table})))

    def _failures(self) -> list[tuple[str, DuramenError]]:
        return [(node, Disconnected(each.view.reason)) for node, each in self.members.items() if not each.alive]


class Read:
    """One read, and whom it asked."""

    def __init__(self, nodes: Nodes, verb: str, reply: str, seen: set[tuple[Fitness, str]]) -> None:
        self._nodes, self._verb, self._reply, self._seen = nodes, verb, reply, seen
        self._deadline = 0.0
        self.asked: list[str] = []

    async def _ask(self, member: Any, numbers: Sequence[int], timeout: float, patience: float) -> dict[int, Any]:
        reply = self._reply if self._verb == "all" or not self.asked else ANSWER
        if not self.asked:
            known = {each.node: each.fitness for each in self._nodes.routes.candidates(PART)}
            self._seen.add((Fitness(known[member.id]), reply))
            if self._verb == "moved":
                self._nodes.advance(Assignment("n3", "member"))
        waits = timeout if reply == SILENCE else min(timeout, patience or timeout) if reply == "ReplicaBehind" else 0.0
        ends = asyncio.get_running_loop().time() + waits >= self._deadline
        how_long = "" if not waits else " until the deadline" if ends else f" for {waits:.3g} s"
        self.asked.append(f"{member.id or 'server'}: {reply}{how_long}")
        await asyncio.sleep(waits)
        if reply == ANSWER:
            return {}
        raise DeadlineExceeded("no reply") if reply == SILENCE else ERRORS[reply](f"{member.id} says so")

    async def run(self) -> str:
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + DEADLINE_S
        failed = await Scatter(self._nodes.routes).run([PART], self._ask, deadline=self._deadline)
        asked = list(islice(self.asked, SHOWN_MAX)) + ["..."] * (len(self.asked) > SHOWN_MAX)
        end = "" if not failed else f" -> {type(failed[0]).__name__}"
        late = " at the deadline" if failed and loop.time() >= self._deadline else ""
        return (", ".join(asked) or "nobody is asked") + end + late


PART: Final = ReadPart(NAME, [b"k"], Offset(5))


def play(text: str, seen: set[tuple[Fitness, str]]) -> str:
    """The script with what comes of each step. `seen` gets what was known of who was asked first, with the reply."""
    blocks: list[str] = []
    line_of_nodes = ""
    for block in text.strip().split("\n\n"):
        asked = block.split("\n---")[0]
        said: list[str] = []
        for line in asked.splitlines():
            verb, _, reply = line.partition(" ")
            if verb in ("first", "all", "moved"):
                assert reply in REPLIES, f"{reply!r} is no reply"

                async def read(verb: str = verb, reply: str = reply, line: str = line_of_nodes) -> str:
                    return await Read(Nodes(line), verb, reply, seen).run()

                said.append(run_virtually(read()))
            elif not line.startswith("#"):
                line_of_nodes = line
                known = Nodes(line).routes.candidates(PART)
                said.append(
                    ", ".join(f"{each.node or 'server'} {Fitness(each.fitness).name}" for each in known) or "nobody"
                )
        blocks.append("\n".join([asked, "---", *said]))
    return "\n\n".join(blocks) + "\n"


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= len(Fitness)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_script(script: Path) -> None:
    check_script(script, play(script.read_text(encoding="utf-8"), set()))


def test_the_scripts_show_every_reply_of_every_kind_of_replica() -> None:
    seen: set[tuple[Fitness, str]] = set()
    for script in SCRIPTS:
        play(script.read_text(encoding="utf-8"), seen)
    missing = {(fitness.name, reply) for fitness in Fitness for reply in REPLIES} - {(f.name, r) for f, r in seen}
    assert not missing, f"no script shows {sorted(missing)}"
