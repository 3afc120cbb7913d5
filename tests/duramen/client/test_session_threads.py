"""A session that several threads change: no entry ever falls, and none is lost."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from duramen.client.model.session import Session
from log_tier.model.identifiers import Offset, Partition, table_id_from_bytes
from log_tier.model.table_ref import TableRef
from log_tier.model.tokens import Token

PARTITIONS = 3
THREADS = 6


@pytest.fixture
def hasty() -> object:
    """Threads take turns all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_what_the_highest_saw_stays(hasty: object) -> None:
    session = Session()
    tables = [TableRef(table_id_from_bytes(bytes([number] * 16)), f"t{number}", PARTITIONS) for number in range(20)]

    def work(number: int) -> dict[tuple[str, int], int]:
        chance = random.Random(number)
        highest: dict[tuple[str, int], int] = {}
        for step in range(3000):
            table, partition = chance.choice(tables), Partition(chance.randrange(PARTITIONS))
            offset = Offset(step * 10 + number)
            before = session.offsets(table)[partition]
            if chance.random() < 0.1:
                session.merge(Token.of(table.id, partition, offset))
            else:
                session.saw(table, partition, offset)
            assert session.offsets(table)[partition] >= max(before, offset)
            highest[table.id, partition] = max(highest.get((table.id, partition), -1), offset)
        return highest

    with ThreadPoolExecutor(THREADS) as threads:
        found = list(threads.map(work, range(THREADS)))
    token = session.token()
    for table in tables:
        for partition in range(PARTITIONS):
            highest = max(each.get((table.id, partition), -1) for each in found)
            assert token.offsets(table.id)[Partition(partition)] == highest
