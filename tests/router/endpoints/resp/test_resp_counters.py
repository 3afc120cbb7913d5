"""What reads before it writes, by many clients at once: every increment counts, a lock is taken once."""

from __future__ import annotations

import threading

from kit.cluster.one_machine import held, puts
from kit.deadlines import wait_until
from kit.resp.raw_client import Raw, Status
from kit.resp.server_thread import ServerThread

from log_tier.model.identifiers import Partition, PartitionId

OK = Status("OK")


def test_every_increment_counts_once(server: ServerThread, key: str) -> None:
    """Many clients, one key, and others that write it without asking."""
    clients, each = 8, 100

    def count() -> None:
        with server.connect() as raw:
            for _ in range(each):
                assert isinstance(raw.call("INCR", key), int)

    threads = [threading.Thread(target=count) for _ in range(clients)]
    for thread in threads:
        thread.start()
    with server.connect() as raw:
        for thread in threads:
            thread.join()
        assert raw.call("GET", key) == b"%d" % (clients * each)


def test_replies_are_all_different(wide: ServerThread, key: str) -> None:
    replies: list[int] = []

    def count() -> None:
        with wide.connect() as raw:
            replies.extend([raw.call("INCRBY", key, "3") for _ in range(50)])

    threads = [threading.Thread(target=count) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replies) == list(range(3, 3 * 300 + 1, 3))


def test_a_lock_is_taken_once(server: ServerThread, key: str) -> None:
    taken: list[int] = []

    def take(number: int) -> None:
        with server.connect() as raw:
            if raw.call("SET", key, number, "NX", "PX", "100000") == OK:
                taken.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1


def test_conditions_hold_against_another_writer_of_the_log(server: ServerThread, raw: Raw, key: str) -> None:
    """What comes into the log between the read and the write makes the command run again."""
    assert raw.call("SET", key, "10") == OK
    assert raw.call("GET", key) == b"10", "it is applied before the replica is held"
    table = server.run(lambda: server.server.tables.open("default"))
    replica = server.data_plane.node.replica(PartitionId(table.ref.id, Partition(0)))
    before = server.server.writer.records
    with held(replica):
        # Not by this endpoint, so it does not know; and not applied, so the increment reads 10.
        batch = puts((key.encode(), b"20"))
        server.run(lambda: server.data_plane.log.append(PartitionId(table.ref.id, Partition(0)), batch))
        raw.send(b"INCR %b\r\n" % key.encode())
        wait_until(lambda: server.server.writer.records != before, "the increment is written")
    assert raw.reply() == 21
    assert server.server.writer.records == before + 2, "it was rejected once, and written again"
