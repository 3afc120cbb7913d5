"""The barrier: the record at which a partition goes from one version of its table to another. Pure.

    operation BARRIER, empty key, value = JSON:  {"v":1,"version":2,"job":1041,"url":"empty:12/530","ended":[1]}

Everything before it is decided and read with the version that was live until then, everything after it with the one
that it names. JSON, because a person who looks at the log shall be able to read what happened; there is one a day.

A replica that replays the log meets barriers of versions that the catalog has forgotten long ago. `url` says where such
a version was built, so that the replica can fetch or make it once more; `ended` says which versions nobody needs behind
this barrier, so that the replica does not keep all of them. Barriers of before have neither.

A barrier takes effect only where its job is later in the catalog than the last one that did: one that was delayed (its
sender was paused, and another node finished the job) changes nothing, on every replica alike.

**Definitions.** A later definition of what a table's keys and values are comes by a barrier too, with its content:

    {"v":2,"version":1,"job":1077,"definition":{…}}

It has format version 2, so that a process that would judge what follows by an earlier definition stops in front of it.
What a definition is, and that it takes effect only where it is the table's next one, is for the fold to say.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from log_tier.model.batch import Columns, encode_batch
from log_tier.model.errors import UnknownFormat
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.record import Operation

__all__ = ["ORIGINAL", "Barrier", "LiveVersion", "barrier_batch", "parse_barrier"]

_FORMAT_VERSION: Final = 2
"""The newest format. A barrier without a definition is written in the first: processes that know no other read it."""

_VERSION_MAX: Final = (1 << 32) - 1
_JOB_MAX: Final = (1 << 63) - 1


class Barrier(NamedTuple):
    """The content of a barrier record."""

    version: int
    """The version that is live from here on."""
    job: int
    """The catalog offset of the job that put it here."""
    url: str = ""
    """Where the version was built; empty: nowhere, or not known."""
    ended: tuple[int, ...] = ()
    """The versions that ended with this barrier: no later one names them."""
    definition: str = ""
    """What the table's keys and values are from here on, as JSON; empty: what they were."""


class LiveVersion(NamedTuple):
    """Which version of a table is live in a partition, and since when."""

    version: int = 1
    since: Offset = NOTHING
    """The barrier's offset; `NOTHING`: from the beginning."""
    job: int = -1

    def after(self, barrier: Barrier, offset: Offset) -> LiveVersion | None:
        """The live version after a barrier at `offset`; None where the barrier comes too late to take effect. One that
        brings a definition to the version that is live leaves that as it is.
        """
        if barrier.job <= self.job:
            return None
        if barrier.definition and barrier.version == self.version:
            return self
        return LiveVersion(barrier.version, offset, barrier.job)


ORIGINAL: Final = LiveVersion()
"""A table that was never swapped."""


def barrier_batch(barrier: Barrier, *, producer_id: int, sequence: int) -> bytes:
    """A batch with nothing but a barrier."""
    fields = {name: value for name, value in barrier._asdict().items() if value not in ("", ())}
    if barrier.definition:
        fields["definition"] = json.loads(barrier.definition)
    value = json.dumps({"v": 2 if barrier.definition else 1, **fields}, separators=(",", ":")).encode()
    columns = Columns([b""], [value], attributes=[int(Operation.BARRIER)])
    return encode_batch(columns, producer_id=producer_id, sequence=sequence)


def parse_barrier(value: bytes) -> Barrier | None:
    """Read a barrier's value, without the fields that a newer version added; None for what is none, which no Duramen
    wrote.

    Raises `UnknownFormat` for one of a newer format: a replica that passed it would part from those that do not.
    """
    try:
        document = json.loads(value)
        later = type(document["v"]) is int and document["v"] > _FORMAT_VERSION
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if later:
        raise UnknownFormat(
            f"a barrier has format version {document['v']}, this process reads up to version {_FORMAT_VERSION}: update "
            "it"
        )
    try:
        fields = [document["version"], document["job"]]
        url, ended = document.get("url", ""), document.get("ended", [])
        known = document["v"] in (1, 2) and all(type(field) is int for field in (*fields, *ended))
        definition = _definition(document["definition"]) if document["v"] == 2 else ""
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    barrier = Barrier(fields[0], fields[1], url, tuple(ended), definition)
    if (
        not known
        or not isinstance(url, str)
        or not 0 < barrier.version <= _VERSION_MAX
        or not 0 <= barrier.job <= _JOB_MAX
    ):
        return None
    return barrier


def _definition(found: object) -> str:
    """Its text as `barrier_batch` takes it. Raises `ValueError` for what is no object."""
    if not isinstance(found, dict):
        raise ValueError(f"a definition is an object, not {type(found).__name__}")
    return json.dumps(found, separators=(",", ":"))
