"""A stream's position: its offsets as the JSON that Spark keeps in the checkpoint, and how far a micro-batch goes.
Pure.

    {"table": "Xk3…", "seen": {"0": 1041, "1": -1}}       the last offset that was shown of each partition

The table's id is part of it: a stream that is restarted on a table of the same name that is another one is refused, and
does not go on in the middle of it. Partitions are always written in order, because Spark compares the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from log_tier.model.errors import InvalidToken, OffsetTrimmed, TokenAhead
from log_tier.model.identifiers import NOTHING, Offset, Partition
from log_tier.model.log import Bounds
from spark_bulk.source.model.table_place import TablePlace

__all__ = ["check_covered", "format_position", "parse_position", "share_limit"]

Seen = Mapping[Partition, Offset]

_TABLE: Final = "table"
_SEEN: Final = "seen"


def format_position(place: TablePlace, seen: Seen) -> dict[str, Any]:
    """A stream's position as the text that Spark's checkpoint stores."""
    return {_TABLE: place.topic.id, _SEEN: {str(each): seen.get(each, NOTHING) for each in place.partitions}}


def parse_position(document: Mapping[str, Any], place: TablePlace) -> dict[Partition, Offset]:
    """Read it back. Raises `InvalidToken` for another table's, or for what no stream of ours wrote."""
    try:
        table = str(document[_TABLE])
        seen = {Partition(int(each)): Offset(int(offset)) for each, offset in document[_SEEN].items()}
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise InvalidToken(
            f"the checkpoint's position {str(document)[:80]!r} is none of a Duramen table: use a checkpoint folder of "
            "its own for each stream"
        ) from error
    if table != place.topic.id:
        raise InvalidToken(
            f"the checkpoint is of table {table}, and {place.topic.name} is {place.topic.id}: it was dropped and made "
            "again, or the stream was pointed at another table; begin with a new checkpoint folder",
            token_table=table,
            table=place.topic.id,
        )
    if set(seen) != set(place.partitions):
        raise InvalidToken(
            f"the checkpoint is of {len(seen)} partitions, {place.topic.name} has {place.topic.partitions}: begin with "
            "a new checkpoint folder"
        )
    return seen


def check_covered(place: TablePlace, seen: Seen, bounds: Sequence[Bounds]) -> None:
    """Raise `OffsetTrimmed` where the log does not go on after what was seen, `TokenAhead` where it is shorter."""
    for partition in place.partitions:
        found = bounds[partition]
        next_offset = max(seen[partition] + 1, place.starts[partition])
        if next_offset < found.earliest:
            raise OffsetTrimmed(
                f"the log of {place.named(partition)} begins at offset {found.earliest}, and offset {next_offset} is "
                "next here: what lies between was trimmed. Read the table itself (without `log`), then go on from "
                "there: a new checkpoint, and `from` the token that was read",
                partition=partition,
                asked=next_offset,
                earliest=found.earliest,
            )
        if seen[partition] > found.latest:
            raise TokenAhead(
                f"{place.named(partition)}: offset {seen[partition]} was seen, and the log ends at {found.latest}: "
                "records that were acknowledged are gone from it; look at the log before you go on",
                partition=partition,
                asked=seen[partition],
                latest=found.latest,
            )


def share_limit(seen: Seen, latest: Seen, records_max: int) -> dict[Partition, Offset]:
    """How far a micro-batch of at most `records_max` offsets goes, from `seen` towards `latest`.

    What waits in each partition gets an equal share, and what one does not need the others get. O(partitions) rounds.
    """
    waiting = {each: latest[each] - seen[each] for each in seen if latest[each] > seen[each]}
    taken = dict.fromkeys(waiting, 0)
    left = records_max
    while waiting and left:
        share = max(1, left // len(waiting))
        for each in sorted(waiting):
            give = min(share, waiting[each] - taken[each], left)
            taken[each] += give
            left -= give
        waiting = {each: count for each, count in waiting.items() if count > taken[each]}
    return {each: Offset(offset + taken.get(each, 0)) for each, offset in seen.items()}
