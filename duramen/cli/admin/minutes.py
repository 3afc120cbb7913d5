"""A minute of a partition, as the log holds it and the replicas counted it, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from duramen.cli.admin.figures import place
from duramen.cli.terminal.output import say
from router.proto.admin_pb2 import AdminMinute, AdminReplicaCount

__all__ = ["say_minute"]


def say_minute(each: AdminMinute) -> None:
    """`orders/3 14:05 written 81,204 applied 81,204 ×3 delivered 81,204 ×2`, and a line for each that differs."""
    if not each.minutes:
        say(f"{place(each)} {each.verdict}: {each.reason}")
        return
    written = f"{each.written.offsets:,}" if each.HasField("written") else "–"
    tiers = {
        "applied": _counts(each, each.replicas) or ("–" if not each.acknowledged else ""),
        "delivered": _counts(each, each.subscriptions),
        "acknowledged": _counts(each, each.acknowledged),
    }
    verdict = "" if each.verdict == "equal" else f"  {each.verdict}"
    reason = f": {each.reason}" if each.reason else ""
    shown = "".join(f" {tier} {counts}" for tier, counts in tiers.items() if counts)
    say(f"{place(each)} {_named(each)} written {written}{shown}{verdict}{reason}")
    for replica in (*each.replicas, *each.subscriptions, *each.acknowledged):
        if replica.verdict == "different":
            name = " ".join(filter(None, (replica.node, replica.name)))
            say(f"  {name}: {replica.reason}")


def _counts(each: AdminMinute, tier: Iterable[AdminReplicaCount]) -> str:
    counts = Counter(_applied(each, replica) for replica in tier)
    return ", ".join(f"{text} ×{count}" for text, count in counts.items())


def _named(each: AdminMinute) -> str:
    begin = datetime.fromtimestamp(each.minute_ms / 1000)
    text = begin.strftime("%H:%M" if begin.date() == datetime.now().date() else "%Y-%m-%d %H:%M")
    return text if each.minutes == 1 else f"{text} and {each.minutes - 1} minutes more"


def _applied(each: AdminMinute, replica: AdminReplicaCount) -> str:
    """What was counted; and whose part of the minute that is, where it did not count all of it."""
    text = f"{replica.counted.offsets:,}"
    if replica.verdict == "equal" and replica.written != each.written:
        return f"{text} (offsets {replica.counted.first} to {replica.counted.last})"
    return text
