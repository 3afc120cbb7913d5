"""What every index must do, in single cases; `test_index_model.py` checks it in random ones.

A test class derives from `IndexContract` and has a fixture `opened`: a function that opens an index with the given
limits, the second time over what the first one left if the kind of index keeps anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kit.log.stored_log import Said, StoredLog, add, columns_of, delete, noop, put
from log_tier.model.batch import Columns
from log_tier.model.errors import (
    BatchRefused,
    ConditionFailed,
    InvalidKey,
    LimitExceeded,
    NotANumber,
    ResultTooLarge,
    ShuttingDown,
    UnknownFormat,
)
from log_tier.model.identifiers import NOTHING, Offset
from log_tier.model.prefix_range import prefix_range
from log_tier.model.record import VALUE_BYTES_MAX, Condition, Expiry, Operation
from serving_tier.fold.entry import LiveEntry
from serving_tier.fold.producers import ProducerState
from serving_tier.fold.verdicts import Outcome, Verdict, rejection_of
from serving_tier.index.index import Index, IndexLimits

Opened = Callable[..., Index]

ABSENT = Condition.ABSENT


def keys_of(index: Index, start: bytes = b"", end: bytes | None = None, **how: object) -> list[bytes]:
    return [key for key, _ in index.scan(start, end, **how).entries]  # type: ignore[arg-type]


class IndexContract:
    @pytest.fixture
    def index(self, opened: Opened) -> Index:
        return opened()

    @pytest.fixture
    def log(self) -> StoredLog:
        return StoredLog()

    def test_a_new_index_is_empty(self, index: Index) -> None:
        assert (index.applied, index.log_time_ms, index.verdicts_from) == (NOTHING, 0, 0)
        assert index.get(b"a") is None
        assert index.get_value(b"a") is None
        assert index.get_many([b"a"]) == (NOTHING, [None], [-1], None)
        assert index.scan(b"", None) == ([], [], [], None, False, NOTHING)
        assert index.scan(b"", None, reverse=True) == ([], [], [], None, False, NOTHING)
        assert index.count() == 0
        assert index.next_expiry_ms() is None
        assert index.outcomes(Offset(0), Offset(100)) == {}
        assert index.producer(1) is None

    def test_plain_puts(self, index: Index, log: StoredLog) -> None:
        done = index.apply(log.append(put(b"a", b"1"), put(b"b", b"2"), put(b"a", b"3"), producer_id=5, sequence=40))
        assert done == (2, log.time_ms, 3, 0, 0, 0)
        assert index.get(b"a") == LiveEntry(b"3", Offset(2), 0)
        assert index.get_value(b"b") == b"2"
        assert index.get_many([b"b", b"x", b"a"]) == (2, [b"2", None, b"3"], [1, -1, 2], None)
        assert index.producer(5) == ProducerState(40, Offset(0), 3)
        assert index.producer(5).last_sequence == 42  # type: ignore[union-attr]
        assert index.outcomes(Offset(0), Offset(2)) == {}

    def test_what_no_table_can_hold_is_void_and_counted(self, index: Index, log: StoredLog) -> None:
        void = Said(Operation.VOID, b"", b"it has no key")
        assert index.apply(log.append(put(b"a", b"1"), void)) == (1, log.time_ms, 2, 1, 0, 1)
        assert index.apply(log.append(void, void)) == (3, log.time_ms, 2, 2, 0, 2)
        assert (index.count(), index.statistics().void) == (1, 3)
        assert {offset: each.verdict for offset, each in index.outcomes(Offset(0), Offset(3)).items()} == {
            Offset(1): Verdict.UNREADABLE,
            Offset(2): Verdict.UNREADABLE,
            Offset(3): Verdict.UNREADABLE,
        }

    def test_an_empty_chunk_changes_nothing(self, index: Index) -> None:
        assert index.apply(b"") == (NOTHING, 0, 0, 0, 0, 0)

    def test_delivered_again_nothing_happens(self, index: Index, log: StoredLog) -> None:
        first = log.append(add(b"n", b"1"))
        second = log.append(add(b"n", b"1"))
        index.apply(first)
        before = index.digest()
        assert index.apply(first).records == 0
        assert index.digest() == before
        assert index.apply(first + second) == (1, log.time_ms, 1, 0, 0, 0)
        assert index.get_value(b"n") == b"2"

    def test_a_batch_of_which_a_part_was_folded_is_folded_from_there(self, index: Index, log: StoredLog) -> None:
        """A log that joins small batches (as compaction may) delivers a place that lies inside a batch."""
        index.apply(log.append(add(b"n", b"1"), producer_id=5, sequence=0))
        joined = StoredLog().append(add(b"n", b"1"), add(b"n", b"10"), put(b"a", b"x"), producer_id=5, sequence=0)
        assert index.apply(joined) == (2, log.time_ms, 2, 0, 0, 0)
        assert index.get(b"n") == LiveEntry(b"11", Offset(1), 0)
        assert index.get(b"a") == LiveEntry(b"x", Offset(2), 0)
        assert index.outcomes(Offset(0), Offset(2)) == {0: Outcome(result=b"1"), 1: Outcome(result=b"11")}
        assert index.producer(5) == ProducerState(1, Offset(1), 2)

    def test_gaps_of_offsets_are_stepped_over(self, index: Index, log: StoredLog) -> None:
        log.next_offset = 100
        index.apply(log.append(put(b"a", b"1")))
        left = Columns([b"b", b"c"], [b"2", b"3"], deltas=[3, 7])
        index.apply(log.append(columns=left, span=10))
        assert index.get(b"b") == LiveEntry(b"2", Offset(104), 0)
        assert index.get(b"c") == LiveEntry(b"3", Offset(108), 0)
        assert index.applied == 110

    def test_an_empty_shell_still_speaks_for_its_producer(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(columns=Columns([], []), span=4, producer_id=9, sequence=12))
        assert index.producer(9) == ProducerState(12, Offset(0), 4)
        assert index.apply(log.append(put(b"a"), producer_id=9, sequence=15)).duplicates == 1
        assert index.outcomes(Offset(4), Offset(4)) == {4: Outcome(duplicate_of=Offset(3))}
        assert index.get(b"a") is None

    def test_a_no_op_moves_the_log_time(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"a", b"1", expiry=Expiry.TTL, expiry_ms=10)))
        assert index.get(b"a") == LiveEntry(b"1", Offset(0), log.time_ms + 10)
        assert index.next_expiry_ms() == log.time_ms + 10
        index.apply(log.append(noop(), later_ms=9))
        assert index.get_value(b"a") == b"1"
        index.apply(log.append(noop(), later_ms=1))
        assert index.get(b"a") is None
        assert index.get_value(b"a") is None
        assert (index.count(), keys_of(index), index.next_expiry_ms()) == (0, [], None)
        assert index.log_time_ms == 1_000_010

    def test_the_log_time_never_falls(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(noop()))
        log.time_ms -= 500
        assert index.apply(log.append(noop())).log_time_ms == log.time_ms + 500

    def test_a_backlog_of_expired_entries_is_never_seen(self, index: Index, log: StoredLog) -> None:
        mortal = [put(b"%04d" % n, b"v", expiry=Expiry.TTL, expiry_ms=10) for n in range(1500)]
        index.apply(log.append(*mortal, put(b"zz", b"stays")))
        index.apply(log.append(*[put(b"%04d" % n, b"saved") for n in range(700)]))
        index.apply(log.append(noop(), later_ms=100))
        assert index.count() == 701
        assert keys_of(index, limit=9999) == [*(b"%04d" % n for n in range(700)), b"zz"]
        assert index.get_many([b"0699", b"0700"])[1:] == ([b"saved", None], [2200, -1], None)
        digest = index.digest()
        for _ in range(8):
            index.apply(log.append(noop()))
        assert index.statistics().entries == 701
        assert index.statistics().expiries == 0
        assert (index.count(), index.digest()) == (701, digest)

    def test_a_put_over_an_expired_entry_lives_on(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"a", b"1", expiry=Expiry.TTL, expiry_ms=10)))
        index.apply(log.append(put(b"a", b"2"), later_ms=5))
        for _ in range(3):
            index.apply(log.append(noop(), later_ms=50))
        assert index.get_value(b"a") == b"2"

    def test_a_key_that_is_renewed_again_and_again_leaves_nothing_behind(self, index: Index, log: StoredLog) -> None:
        for _ in range(20):
            index.apply(log.append(put(b"session", b"on", expiry=Expiry.TTL, expiry_ms=1000), later_ms=1))
        assert index.statistics().expiries == 1
        assert index.next_expiry_ms() == log.time_ms + 1000
        index.apply(log.append(delete(b"session")))
        assert index.statistics().expiries == 0
        assert index.next_expiry_ms() is None

    def test_conditions_and_their_errors(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"a", b"1", condition=ABSENT), put(b"a", b"2", condition=ABSENT)))
        index.apply(log.append(put(b"b", b"1", condition=Condition.PRESENT)))
        index.apply(log.append(put(b"a", b"3", condition=Condition.VERSION, version=7)))
        index.apply(log.append(put(b"a", b"4", condition=Condition.VERSION, version=0)))
        assert index.get(b"a") == LiveEntry(b"4", Offset(4), 0)
        outcomes = index.outcomes(Offset(0), Offset(4))
        failed = Verdict.CONDITION_FAILED
        assert outcomes == {
            1: Outcome(failed, 0, Offset(1)),
            2: Outcome(failed, -1, Offset(2)),
            3: Outcome(failed, 0, Offset(3)),
        }
        error = rejection_of(Offset(3), outcomes[Offset(3)])
        assert isinstance(error, ConditionFailed)
        assert error.fields["actual"] == 0
        assert str(error) == "offset 3: the condition did not hold: the key has version 0"

    def test_updates_tell_their_results(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(add(b"n", b"40"), add(b"n", b"2"), Said(Operation.APPEND, b"t", b"abc")))
        assert [index.outcomes(Offset(0), Offset(9))[Offset(at)].result for at in range(3)] == [b"40", b"42", b"3"]
        index.apply(log.append(add(b"t", b"1")))
        error = rejection_of(Offset(3), index.outcomes(Offset(3), Offset(3))[Offset(3)])
        assert isinstance(error, NotANumber)

    def test_an_append_stops_at_the_limit(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"t", bytes(VALUE_BYTES_MAX - 1))))
        index.apply(log.append(Said(Operation.APPEND, b"t", b"x")))
        index.apply(log.append(Said(Operation.APPEND, b"t", b"y")))
        assert index.get_value(b"t") == bytes(VALUE_BYTES_MAX - 1) + b"x"
        outcomes = index.outcomes(Offset(1), Offset(2))
        assert outcomes[Offset(1)].result == b"%d" % VALUE_BYTES_MAX
        assert isinstance(rejection_of(Offset(2), outcomes[Offset(2)]), ResultTooLarge)

    def test_a_group_takes_effect_together_or_not_at_all(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"from", b"10"), put(b"to", b"x")))
        index.apply(
            log.append(
                add(b"from", b"-1"),
                add(b"to", b"1", grouped=True),
                put(b"log", b"moved", grouped=True),
                put(b"next", b""),
            )
        )
        assert index.get_value(b"from") == b"10"
        assert index.get(b"log") is None
        assert index.get(b"next") == LiveEntry(b"", Offset(5), 0)
        outcomes = index.outcomes(Offset(2), Offset(5))
        assert outcomes == {at: Outcome(Verdict.NOT_A_NUMBER, -1, Offset(3)) for at in (2, 3, 4)}
        error = rejection_of(Offset(2), outcomes[Offset(2)])
        assert "rejected at its record with offset 3" in str(error)

    def test_members_of_a_group_see_each_other(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"a", b"1"), add(b"a", b"1", grouped=True), delete(b"a", grouped=True)))
        index.apply(log.append(put(b"b", b"1", condition=ABSENT), add(b"b", b"1", grouped=True)))
        assert index.get(b"a") is None
        assert index.get(b"b") == LiveEntry(b"2", Offset(4), 0)

    def test_a_retried_batch_gets_the_first_ones_outcomes(self, index: Index, log: StoredLog) -> None:
        records = [add(b"n", b"5"), put(b"n", b"0", condition=ABSENT), put(b"m", b"1")]
        index.apply(log.append(*records, producer_id=8, sequence=100))
        assert index.apply(log.append(*records, producer_id=8, sequence=100)) == (5, log.time_ms, 0, 0, 3, 0)
        assert index.get_value(b"n") == b"5"
        first, again = index.outcomes(Offset(0), Offset(2)), index.outcomes(Offset(3), Offset(5))
        assert again == {
            3: first[Offset(0)]._replace(duplicate_of=Offset(0)),
            4: first[Offset(1)]._replace(duplicate_of=Offset(1)),
            5: Outcome(duplicate_of=Offset(2)),
        }
        assert index.outcomes(Offset(4), Offset(4)) == {4: again[Offset(4)]}

    def test_a_retry_of_an_older_batch_is_void_and_says_that_its_place_is_forgotten(
        self, index: Index, log: StoredLog
    ) -> None:
        index.apply(log.append(add(b"n", b"5"), producer_id=8, sequence=0))
        index.apply(log.append(add(b"n", b"5"), producer_id=8, sequence=1))
        index.apply(log.append(add(b"n", b"5"), producer_id=8, sequence=0))
        assert index.get_value(b"n") == b"10"
        assert index.outcomes(Offset(2), Offset(2)) == {2: Outcome(Verdict.DUPLICATE, duplicate_of=NOTHING)}

    def test_the_producer_whose_last_batch_is_oldest_is_forgotten(self, opened: Opened, log: StoredLog) -> None:
        index = opened(IndexLimits(producers=2))
        for producer_id in (1, 2, 1, 3):
            log.append(put(b"a"), producer_id=producer_id, sequence=len(log.batches))
        index.apply(b"".join(log.batches))
        assert [index.producer(each) is not None for each in (1, 2, 3)] == [True, False, True]
        index.apply(log.append(put(b"a"), producer_id=4, sequence=0))
        assert [index.producer(each) is not None for each in (1, 2, 3, 4)] == [False, False, True, True]
        index.apply(log.append(put(b"a"), producer_id=5, sequence=0) + log.append(put(b"a"), producer_id=1, sequence=9))
        assert [index.producer(each) is not None for each in (1, 3, 4, 5)] == [True, False, False, True]
        assert index.statistics().producers == 2

    def test_verdicts_are_bounded_and_say_from_where_they_are_known(self, opened: Opened, log: StoredLog) -> None:
        index = opened(IndexLimits(verdicts=3))
        index.apply(log.append(put(b"a", b"1")))
        for _ in range(5):
            index.apply(log.append(put(b"a", b"2", condition=ABSENT)))
        assert index.verdicts_from == 3
        assert sorted(index.outcomes(Offset(0), Offset(9))) == [3, 4, 5]
        assert index.statistics().verdicts == 3

    def test_results_are_a_window_of_offsets(self, opened: Opened, log: StoredLog) -> None:
        index = opened(IndexLimits(results=4))
        index.apply(log.append(*[add(b"n", b"1")] * 3))
        index.apply(log.append(add(b"n", b"1"), put(b"a"), put(b"b")))
        assert {at: what.result for at, what in index.outcomes(Offset(0), Offset(9)).items()} == {2: b"3", 3: b"4"}

    def test_pages_of_a_scan(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(*[put(b"%02d" % n, b"v" * 100) for n in range(20)]))
        page = index.scan(b"05", b"15", limit=4)
        assert ([key for key, _ in page.entries], page.more) == ([b"05", b"06", b"07", b"08"], True)
        assert keys_of(index, page.entries[-1][0] + b"\0", b"15") == [b"%02d" % n for n in range(9, 15)]
        back = index.scan(b"05", b"15", limit=4, reverse=True)
        assert ([key for key, _ in back.entries], back.more) == ([b"14", b"13", b"12", b"11"], True)
        assert keys_of(index, b"05", back.entries[-1][0], reverse=True) == [b"%02d" % n for n in range(10, 4, -1)]
        assert index.scan(b"05", b"15", limit=10).more is False
        assert index.scan(b"05", b"15", limit=9, reverse=True).more is True
        small = index.scan(b"", None, bytes_max=250)
        assert (len(small.entries), small.more) == (3, True)
        assert len(index.scan(b"", None, bytes_max=1).entries) == 1
        assert keys_of(index, b"15", b"05") == []
        assert keys_of(index, b"15", b"05", reverse=True) == []
        assert keys_of(index, b"99", None) == []

    @pytest.mark.parametrize("prefix", [b"", b"a", b"a\xff", b"\xff", b"\xff\xff", b"zz"])
    def test_prefixes(self, index: Index, log: StoredLog, prefix: bytes) -> None:
        keys = [b"a", b"a\xfe", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xfe", b"\xff\xff", b"\xff\xff\xff"]
        index.apply(log.append(*map(put, keys)))
        wanted = sorted(key for key in keys if key.startswith(prefix))
        start, end = prefix_range(prefix)
        assert keys_of(index, start, end) == wanted
        assert keys_of(index, start, end, reverse=True) == wanted[::-1]

    def test_an_empty_key_is_refused(self, index: Index) -> None:
        for read in (index.get, index.get_value, lambda key: index.get_many([key])):
            with pytest.raises(InvalidKey, match="1 to 511"):
                read(b"")

    def test_a_chunk_with_a_flipped_bit_changes_nothing(self, index: Index, log: StoredLog) -> None:
        good, other = log.append(put(b"a", b"1")), bytearray(log.append(put(b"b", b"2")))
        other[-1] ^= 1
        with pytest.raises(BatchRefused, match="checksum"):
            index.apply(good + bytes(other))
        assert (index.applied, index.count()) == (NOTHING, 0)
        with pytest.raises(BatchRefused, match="cut short"):
            index.apply(good[:-1])
        index.apply(good)
        assert index.count() == 1

    @pytest.mark.parametrize("attribute", [11, 0x2001, 0xFF])
    def test_what_a_newer_version_wrote_stops_the_fold(self, index: Index, log: StoredLog, attribute: int) -> None:
        good = log.append(put(b"a", b"1"))
        columns = columns_of([put(b"b", b"2")])
        columns.attributes = [attribute]
        with pytest.raises(UnknownFormat, match=f"{attribute:#06x}.*upgrade"):
            index.apply(good + log.append(columns=columns))
        assert (index.applied, index.count()) == (NOTHING, 0)

    def test_a_read_of_many_keys_ends_at_its_limit(self, index: Index, log: StoredLog) -> None:
        """One key may be named any number of times: all its copies were made before their bytes were counted."""
        index.apply(log.append(put(b"a", b"x" * 1000), put(b"b", b"y")))
        assert index.get_many([b"a"] * 9 + [b"b"], bytes_max=10_000).values == [b"x" * 1000] * 9 + [b"y"]
        with pytest.raises(LimitExceeded, match="these 100000 keys have more than 10000 bytes"):
            index.get_many([b"a"] * 100_000, bytes_max=10_000)
        with pytest.raises(LimitExceeded):
            index.get_many([b"a"], bytes_max=999)

    def test_equal_logs_give_equal_digests(self, opened: Opened, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"a", b"1"), put(b"b", b"2")))
        before = index.digest()
        index.apply(log.append(put(b"a", b"1")))
        assert index.digest() != before, "a version changed"

    def test_reads_run_while_chunks_are_applied(self, index: Index, log: StoredLog) -> None:
        """Every read sees one applied offset: both halves of a batch, and the offset that belongs to them."""
        chunks = [log.append(put(b"a", b"%d" % n), put(b"z", b"%d" % n)) for n in range(300)]
        wrong: list[object] = []
        done = threading.Event()

        def read() -> None:
            while not done.is_set():
                found = index.get_many([b"a", b"z"])
                first, second = found.values
                page = index.scan(b"", None)
                values = {entry.value for _, entry in page.entries}
                if first != second or len(values) > 1:
                    wrong.append((found, page))
                if second and (found.versions[1] != found.applied or page.entries[-1][1].version != page.applied):
                    wrong.append((found, page))

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for chunk in chunks:
            index.apply(chunk)
        done.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert index.get_value(b"z") == b"299"

    def test_closing_twice_is_closing(self, index: Index, log: StoredLog) -> None:
        index.apply(log.append(put(b"a", b"1")))
        index.close()
        index.close()
        reads: list[Callable[[], object]] = [
            lambda: index.get(b"a"),
            lambda: index.get_value(b"a"),
            lambda: index.get_many([b"a"]),
            lambda: index.scan(b"", None),
            lambda: index.outcomes(Offset(0), Offset(0)),
            lambda: index.producer(1),
            lambda: index.apply(b""),
            index.count,
            index.next_expiry_ms,
            index.digest,
            index.statistics,
        ]
        for read in reads:
            with pytest.raises(ShuttingDown, match="closed"):
                read()
