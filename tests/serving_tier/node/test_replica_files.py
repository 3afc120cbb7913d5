from __future__ import annotations

from pathlib import Path

from log_tier.catalog.cluster_map import Assignment, ClusterMap, TableEntry
from log_tier.concurrency.persistent_map import PersistentMap
from log_tier.model.identifiers import table_id_from_bytes
from serving_tier.node.replica_files import tidy

FLIGHTS, SHIPS, DROPPED, UNKNOWN = (table_id_from_bytes(bytes([number] * 16)) for number in range(4))


def test_what_is_left_is_what_is_listed(tmp_path: Path) -> None:
    here, elsewhere = (Assignment("n1", "member"),), (Assignment("n2", "member"),)
    flights = TableEntry(FLIGHTS, "flights", 2, 1, (here, elsewhere))
    ships = TableEntry(SHIPS, "ships", 1, 1, (here,))
    cluster = ClusterMap(tables=PersistentMap({FLIGHTS: flights, SHIPS: ships}), dropped=(DROPPED,))
    for folder in (f"{FLIGHTS}/0", f"{FLIGHTS}/0.v2", f"{FLIGHTS}/0.rebuild", f"{FLIGHTS}/1", f"{DROPPED}/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / UNKNOWN / "0").mkdir(parents=True)
    listed = tidy(tmp_path, cluster, "n1")
    assert listed == {FLIGHTS: {"0", "0.v2"}}, "what has no folder, or is not ours to look after, has to be looked for"
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*")) == sorted(
        [f"{FLIGHTS}/0", f"{FLIGHTS}/0.v2", f"{UNKNOWN}/0"]
    )
