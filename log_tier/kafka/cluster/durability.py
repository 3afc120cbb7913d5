"""Which settings of a topic make "acknowledged" mean less than it sounds. Pure; `docs/OPERATIONS.md` has the table."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["weaknesses"]


def weaknesses(settings: Mapping[str, str], *, replication: int, adopted: bool) -> list[str]:
    """What is lost, and when, sentence by sentence; empty for a topic that keeps what it acknowledges.

    `settings`: the topic's, by Kafka's names. `replication`: of its least replicated partition. `adopted`: others write
    the topic too.
    """
    found: list[str] = []
    if replication < 2:
        found.append(
            "replication 1: a broker that loses its disk, or its page cache in a power failure, loses acknowledged "
            "records; use 3"
        )
    elif replication == 2:
        found.append("replication 2: with one broker down there is one copy, or no writes; use 3")
    insync = int(settings.get("min.insync.replicas", "1"))
    if insync < 2 <= replication:
        found.append(
            f"min.insync.replicas {insync}: a record may be acknowledged by its leader alone and be lost with it; use 2"
        )
    if insync >= replication > 1:
        found.append(f"min.insync.replicas {insync} of {replication}: no writes while any broker is down")
    if settings.get("unclean.leader.election.enable", "false") == "true":
        found.append(
            "unclean.leader.election.enable: a replica that missed acknowledged records may become leader, and they "
            "are gone; set it to false"
        )
    policies = {policy.strip() for policy in settings.get("cleanup.policy", "delete").split(",")}
    if "compact" in policies:
        found.append(
            "cleanup.policy compact: Kafka keeps the last record of each key only, so conditional writes, updates and "
            "atomic batches are refused, and a replica must not be built from it after a retry that came twice"
        )
    keeps_time = int(settings.get("retention.ms", "604800000")) == -1
    keeps_size = int(settings.get("retention.bytes", "-1")) == -1
    if "delete" in policies and not (keeps_time and keeps_size):
        found.append(
            f"retention.ms {settings.get('retention.ms', '604800000')}, retention.bytes "
            f"{settings.get('retention.bytes', '-1')}: Kafka removes old records whether a snapshot covers them or "
            "not; a replica that needs them must find a snapshot or a peer"
            + ("" if adopted else "; set both to -1 and let `duramen admin trim` do it")
        )
    return found
