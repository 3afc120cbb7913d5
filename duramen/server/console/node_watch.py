"""What the nodes of a cluster say of themselves, for a router's page.

While somebody watches, each node is asked every few seconds, in bounded time. One that does not answer holds up
nothing, and is named.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from duramen.server.console.node_facts import NodeFacts, facts_of_status
from duramen.server.sight.observed import NodeSeen
from log_tier.concurrency.sized_work import gather_some, run_sized
from log_tier.concurrency.tasks import TaskSet
from log_tier.model.errors import DuramenError

__all__ = ["ASKED_EACH_S", "AskStatus", "NodeWatch"]

ASKED_EACH_S: Final = 5.0
"""A node's answer has some 0.2 KiB for each partition: twenty nodes with a thousand each send 0.8 MB a second."""
TIMEOUT_S: Final = 2.0

# To read so many bytes of JSON costs as much as a key of a read.
_ITEM_BYTES: Final = 400


class AskStatus(Protocol):
    """Asks a node for its status document."""

    async def __call__(self, node: str, *, timeout: float) -> bytes:
        """The document as JSON. Raises what the node says, and `DuramenError` where it does not answer in time."""
        ...


class NodeWatch:
    """Asks the nodes of one cluster. Belongs to one event loop; `close()` ends it."""

    def __init__(self, ask: AskStatus, uptime_s: Callable[[], float]) -> None:
        self._ask = ask
        self._uptime_s = uptime_s
        self._asked_s = -ASKED_EACH_S
        self._asking = TaskSet()
        self._is_asking = False
        self._alive: dict[str, bool] | None = None
        self._since: dict[str, float | None] = {}
        self._facts: dict[str, NodeFacts] = {}

    def facts(self) -> dict[str, NodeFacts]:
        """What is known of each node. O(nodes)."""
        return {
            node: self._facts.get(node, NodeFacts())._replace(alive_since_s=since_s)
            for node, since_s in self._since.items()
        }

    def look(self, nodes: Sequence[NodeSeen], *, watched: bool) -> None:
        """Note who is there. If somebody watches and the last answers are some seconds old, begin to ask. Waits for
        nothing.
        """
        now_s, before = self._uptime_s(), self._alive
        self._alive = {each.node: each.alive for each in nodes}
        first_s = None if before is None else now_s
        self._since = {
            node: self._since.get(node, first_s) if (before or {}).get(node, alive) == alive else now_s
            for node, alive in self._alive.items()
        }
        if not watched or self._is_asking or now_s - self._asked_s < ASKED_EACH_S:
            return
        self._is_asking, self._asked_s = True, now_s
        self._asking.start(self._ask_all(nodes), name="asking the nodes for their status")

    async def _ask_all(self, nodes: Sequence[NodeSeen]) -> None:
        try:
            found = await gather_some(nodes, self._asked)
            self._facts = dict(zip((each.node for each in nodes), found, strict=True))
        finally:
            self._is_asking = False

    async def _asked(self, node: NodeSeen) -> NodeFacts:
        before = self._facts.get(node.node, NodeFacts())
        if not node.alive:  # its status stream is gone: it would cost the whole time to learn no more
            return before._replace(error=node.reason)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                text = await self._ask(node.node, timeout=TIMEOUT_S)
            document = await run_sized(len(text) // _ITEM_BYTES, lambda: json.loads(text))
            return facts_of_status(document, self._uptime_s())
        except DuramenError as error:
            return before._replace(error=error.message)
        except TimeoutError:
            return before._replace(error=f"no answer within {TIMEOUT_S:g} s")
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            return before._replace(error="its answer is no status document that this release reads")

    async def close(self) -> None:
        """Ask no longer. Idempotent."""
        await self._asking.close()
