"""What is wrong with a server, in order of urgency, each with the one thing to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from duramen.server.sight.clocks import wrong_clocks
from duramen.server.sight.observed import LogServerSeen, Observed, PartitionStatus

__all__ = [
    "CERTIFICATE_DAYS_WARNED",
    "DISK_FREE_BYTES_MIN",
    "DISK_FREE_SHARE_MIN",
    "TROUBLE_KINDS",
    "Trouble",
    "hidden_trouble",
    "troubles_of",
]

# Below both a disk counts as nearly full: a twentieth of a small disk, and not of one with terabytes to spare.
DISK_FREE_SHARE_MIN: Final = 0.05
DISK_FREE_BYTES_MIN: Final = 10 << 30

# Less is an evening's work at the wrong time; more would warn of certificates that are made for a fortnight.
CERTIFICATE_DAYS_WARNED: Final = 7

_SILENT_S: Final = 1.0
"""A replica that has just caught up has no lag left, and may be called behind for a moment more."""

TROUBLE_KINDS: Final = (
    "log_stopped",
    "log_silent",
    "unreadable",
    "stopped",
    "different",
    "audit_different",
    "disk_full",
    "certificate_expired",
    "node_lost",
    "behind",
    "opening",
    "clock_wrong",
    "disk_nearly_full",
    "certificate_expires",
    "hidden",
)
"""The kinds of troubles, the most urgent first."""

_DAY_MS: Final = 86_400_000

# A line that a person reads names so many partitions; the document has all of them.
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Trouble:
    """One thing that is wrong."""

    kind: str
    """One of `TROUBLE_KINDS`."""
    what: str
    """What is wrong, with its numbers."""
    do: str
    """What to do about it."""
    blocks: bool
    """Is the server not ready because of it?"""


def hidden_trouble() -> Trouble:
    """In place of those that name tables that are not shown to the caller."""
    return Trouble(
        "hidden",
        "this server is not ready, and the reason is about tables that are not shown to you",
        "tell who administers the cluster; with `admin *`, `duramen status` names the tables",
        blocks=True,
    )


def troubles_of(observed: Observed) -> tuple[Trouble, ...]:
    """What is wrong, the most urgent first. O(partitions)."""
    return (
        *_of_the_log(observed),
        *_of_a_silent_log(observed),
        *_of_partitions(observed),
        *_of_proofs(observed),
        *_of_the_disk(observed, full=True),
        *_of_the_logs_disk(observed, full=True),
        *_of_node_disks(observed, full=True),
        *_of_certificates(observed, expired=True),
        *_of_nodes(observed),
        *_late(observed),
        *_of_clocks(observed),
        *_of_the_disk(observed, full=False),
        *_of_the_logs_disk(observed, full=False),
        *_of_node_disks(observed, full=False),
        *_of_certificates(observed, expired=False),
    )


def _of_the_log(observed: Observed) -> Iterator[Trouble]:
    log = observed.log
    if log is not None and log.stopped is not None:
        yield Trouble(
            "log_stopped",
            f"the log acknowledges nothing more: {log.stopped}",
            "look at the disk and the kernel's messages, then restart this server: nothing acknowledged is lost",
            blocks=True,
        )
    server = _answering_log_server(observed)
    if server is not None and server.stopped is not None:
        yield Trouble(
            "log_stopped",
            f"the log's server at {server.address} acknowledges nothing more: {server.stopped}",
            "look at its disk and its kernel's messages, then restart it: nothing acknowledged is lost",
            blocks=False,
        )


def _answering_log_server(observed: Observed) -> LogServerSeen | None:
    """What one that is silent said last is no news of its disk and clock."""
    server = observed.log_server
    return server if server is not None and server.alive else None


def _of_a_silent_log(observed: Observed) -> Iterator[Trouble]:
    silent = [each for each in observed.partitions if _is_unheard(each)]
    if silent:
        is_router = observed.role == "router"
        whom, seconds = "the nodes" if is_router else "this server", max(each.lag_s for each in silent)
        yield Trouble(
            "log_silent",
            f"the log has not answered {whom} for {seconds:.0f} s: {_named(silent)} cannot be written",
            "start the log's server again, or look at the network to it; reads are of before, and go on by themselves",
            blocks=not is_router,
        )


def _is_unheard(each: PartitionStatus) -> bool:
    """Is it behind because the log does not answer? A replica that has something left to apply is behind by itself."""
    return each.state == "behind" and each.lag_records <= 0 and each.lag_s >= _SILENT_S


def _of_partitions(observed: Observed) -> Iterator[Trouble]:
    if observed.role == "router":
        # A partition without records is read as soon as one replica is there; so is one that is behind.
        lost = [each for each in observed.partitions if not each.is_readable]
        if lost:
            yield Trouble(
                "unreadable",
                f"{_named(lost)}: no replica can be read{_reason(lost)}",
                "start the nodes that hold them (`duramen admin nodes`), or restore them (`duramen admin restore`)",
                blocks=False,
            )
        return
    stopped = [each for each in observed.partitions if each.state == "stopped"]
    if stopped:
        yield Trouble(
            "stopped",
            f"{_named(stopped)} stopped here{_reason(stopped)}",
            "do what the reason says; `duramen admin partitions` has the reason of each",
            blocks=True,
        )


def _of_proofs(observed: Observed) -> Iterator[Trouble]:
    different = [each for each in observed.partitions if each.differs]
    if different:
        yield Trouble(
            "different",
            f"{_named(different)}: what was folded or delivered is not what the log holds ({different[0].differs})",
            f"look at `duramen audit data {different[0].table}`; `duramen admin restore NODE` builds a replica anew",
            blocks=False,
        )
    audited = [each for each in observed.partitions if each.audited_differently]
    if audited:
        yield Trouble(
            "audit_different",
            f"{_named(audited)}: an audit found a difference ({audited[0].audited_differently})",
            f"look at `duramen audit data {audited[0].table}`; export anew and audit it again, or `--forget` it",
            blocks=False,
        )


def _of_the_disk(observed: Observed, *, full: bool) -> Iterator[Trouble]:
    disk = observed.disk
    if disk is None:
        return
    free = disk.free_bytes
    if free == 0 and full:
        yield Trouble(
            "disk_full",
            f"the disk of {disk.folder} is full: nothing can be written",
            f"make room on the disk of {disk.folder}; writes go on by themselves",
            blocks=False,
        )
    elif not full and _is_nearly_full(free, disk.full_bytes):
        yield Trouble(
            "disk_nearly_full",
            f"the disk of {disk.folder} has {free >> 20:,} MiB free, {free / disk.full_bytes:.1%} of it",
            f"make room on the disk of {disk.folder}, or let tables keep less (`duramen table set --retention-ms`)",
            blocks=False,
        )


def _is_nearly_full(free: int, size: int) -> bool:
    return 0 < free < DISK_FREE_BYTES_MIN and free / size < DISK_FREE_SHARE_MIN


def _of_the_logs_disk(observed: Observed, *, full: bool) -> Iterator[Trouble]:
    """The disk of a log in another process."""
    server = _answering_log_server(observed)
    if server is None or server.disk_free_bytes is None or not server.disk_full_bytes:
        return
    free, size = server.disk_free_bytes, server.disk_full_bytes
    where = f"the disk of the log's server at {server.address}"
    if full and free == 0:
        yield Trouble(
            "disk_full",
            f"{where} is full: nothing can be written",
            f"make room on {where}; writes go on by themselves",
            blocks=False,
        )
    elif not full and _is_nearly_full(free, size):
        yield Trouble(
            "disk_nearly_full",
            f"{where} has {free >> 20:,} MiB free, {free / size:.1%} of it",
            f"make room on {where}, or let tables keep less (`duramen table set --retention-ms`)",
            blocks=False,
        )


def _of_node_disks(observed: Observed, *, full: bool) -> Iterator[Trouble]:
    """At a router. What a lost node said last is no news of its disk."""
    disks = {
        each.node: (each.disk_free_bytes, each.disk_full_bytes)
        for each in observed.nodes
        if each.alive and each.disk_free_bytes is not None and each.disk_full_bytes
    }
    found = [node for node, (free, size) in disks.items() if (free == 0 if full else _is_nearly_full(free, size))]
    if not found:
        return
    found.sort(key=lambda node: disks[node])
    free, size = disks[found[0]]
    names = ", ".join(found[:_NAMED_MAX]) + (" …" if len(found) > _NAMED_MAX else "")
    of = f"the disks of {len(found)} of {len(observed.nodes)} nodes are"
    room = f"make room on the disk of {found[0]}"
    if full:
        yield Trouble(
            "disk_full",
            f"{of} full: {names}",
            f"{room}: its replicas fall behind, and go on by themselves; the log may lie on the same disk",
            blocks=False,
        )
    else:
        yield Trouble(
            "disk_nearly_full",
            f"{of} nearly full: {names} ({free >> 20:,} MiB free, {free / size:.1%})",
            f"{room}, or let tables keep less (`duramen table set --retention-ms`)",
            blocks=False,
        )


def _of_certificates(observed: Observed, *, expired: bool) -> Iterator[Trouble]:
    server = observed.log_server
    found = dict.fromkeys(observed.certificates, "")
    for each in () if server is None else server.certificates:
        found.setdefault(each, ", at the log's server,")
    for each, where in sorted(found.items(), key=lambda one: (one[0].expires_ms, one[0].name)):
        left_ms = each.expires_ms - observed.now_ms
        command = "`duramen cert rotate --ca`" if each.kind == "ca" else f"`duramen cert rotate {each.name}`"
        if left_ms <= 0 and expired:
            yield Trouble(
                "certificate_expired",
                f"the certificate of {each.name}{where} has expired: handshakes fail",
                f"reissue it where the CA's key is: {command}; servers use it without a restart",
                blocks=False,
            )
        elif 0 < left_ms < CERTIFICATE_DAYS_WARNED * _DAY_MS and not expired:
            yield Trouble(
                "certificate_expires",
                f"the certificate of {each.name}{where} expires in {left_ms / _DAY_MS:.1f} days",
                f"reissue it where the CA's key is: {command}; servers use it without a restart",
                blocks=False,
            )


def _of_nodes(observed: Observed) -> Iterator[Trouble]:
    lost = [each for each in observed.nodes if not each.alive]
    if lost:
        names = ", ".join(each.node for each in lost[:_NAMED_MAX]) + (" …" if len(lost) > _NAMED_MAX else "")
        yield Trouble(
            "node_lost",
            f"{len(lost)} of {len(observed.nodes)} nodes do not answer: {names} ({lost[0].reason})",
            f"start {lost[0].node} again; if its machine is gone: `duramen admin retire {lost[0].node}`",
            blocks=False,
        )


def _of_clocks(observed: Observed) -> Iterator[Trouble]:
    # The last word of a lost node is as old as its silence.
    skews_s = {each.node: each.clock_skew_s for each in observed.nodes if each.alive}
    server = _answering_log_server(observed)
    if server is not None:
        skews_s["the log's server"] = server.clock_skew_s
    what = wrong_clocks(observed.name, skews_s)
    if what:
        yield Trouble(
            "clock_wrong",
            what,
            "let NTP set the clocks; times that such a server shows are wrong, and tokens and TTLs of the Redis "
            "protocol end early or late there",
            blocks=False,
        )


def _late(observed: Observed) -> Iterator[Trouble]:
    blocks = observed.role != "router"
    behind = [each for each in observed.partitions if each.state == "behind" and not _is_unheard(each)]
    if behind:
        worst = max(behind, key=lambda each: each.lag_s)
        lag = f"{_named(behind)} lag the log, {worst.name}" if len(behind) > 1 else f"{worst.name} lags the log"
        yield Trouble(
            "behind",
            f"{lag} by {_records(worst.lag_records)} and {worst.lag_s:.0f} s{_reason(behind)}",
            "wait if `duramen admin lag` shows that it falls; else the node's processor or disk is too slow",
            blocks=blocks,
        )
    opening = [each for each in observed.partitions if each.state in ("bootstrapping", "replaying")]
    if opening and blocks:  # at a router they count as unreadable
        yield Trouble(
            "opening",
            f"{_named(opening)} are being opened{_reason(opening)}",
            "wait: they answer when they are level with the log",
            blocks=True,
        )


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count:,} records"


def _named(partitions: Sequence[PartitionStatus]) -> str:
    names = ", ".join(each.name for each in partitions[:_NAMED_MAX])
    more = len(partitions) - _NAMED_MAX
    return names if more <= 0 else f"{names} and {more:,} more"


def _reason(partitions: Sequence[PartitionStatus]) -> str:
    reason = next((each.reason for each in partitions if each.reason), "")
    return f" ({reason})" if reason else ""
