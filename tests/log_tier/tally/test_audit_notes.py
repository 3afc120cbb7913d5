"""Notes of audits: the newest of a partition counts, a difference is not crowded out, and names are bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from log_tier.model.identifiers import Offset, Partition
from log_tier.tally.audit_note import (
    NAME_MAX,
    NOTES_MAX,
    REASON_MAX,
    TIERS,
    AuditedPart,
    AuditNote,
    note_from,
    note_row,
    noted_of,
    with_note,
)


def part(number: int, rows: int = 10, verdict: str = "equal", reason: str = "") -> AuditedPart:
    return AuditedPart(Partition(number), rows, Offset(rows - 1), verdict, reason)


def note(name: str, *parts: AuditedPart, tier: str = "export") -> AuditNote:
    return AuditNote(tier, name, parts)


def said(notes: tuple[AuditNote, ...], partition: int) -> list[tuple[str, str, int, str, int]]:
    return [
        (each.tier, each.name, found.rows, found.verdict, found.checked_ms)
        for each, found in noted_of(notes, partition)
    ]


def test_the_newest_audit_of_a_partition_counts() -> None:
    notes = with_note((), note("s3://lake", part(0, 10), part(1, 20)), 1000)
    notes = with_note(notes, note("s3://lake", part(1, 30)), 2000)
    assert said(notes, 0) == [("export", "s3://lake", 10, "equal", 1000)]
    assert said(notes, 1) == [("export", "s3://lake", 30, "equal", 2000)]
    assert said(notes, 2) == []
    assert len(notes) == 1


def test_of_several_exports_the_newest_is_shown_and_every_one_that_differs() -> None:
    notes = with_note((), note("old", part(0, 7, "different", "offsets 3 to 4")), 1000)
    notes = with_note(notes, note("other", part(0, 8)), 1500)
    notes = with_note(notes, note("new", part(0, 9)), 2000)
    notes = with_note(notes, note("0f", part(0, 5), tier="session"), 1200)
    assert said(notes, 0) == [
        ("export", "new", 9, "equal", 2000),
        ("export", "old", 7, "different", 1000),
        ("session", "0f", 5, "equal", 1200),
    ]
    notes = with_note(notes, note("old", part(0, 7)), 3000)
    assert said(notes, 0)[0] == ("export", "old", 7, "equal", 3000), "audited again: equal now"


def test_a_note_without_parts_takes_away_what_is_known() -> None:
    notes = with_note((), note("a", part(0)), 1)
    notes = with_note(notes, note("a", part(0), tier="session"), 1)
    assert said(with_note(notes, note("a"), 2), 0) == [("session", "a", 10, "equal", 1)]
    assert with_note((), note("never"), 1) == ()


def test_a_difference_stays_longer_than_what_was_equal() -> None:
    notes = with_note((), note("bad", part(0, 1, "different", "offset 0")), 1)
    for number in range(3 * NOTES_MAX):
        notes = with_note(notes, note(f"e{number}", part(0)), 2 + number)
    assert [each.name for each in notes] == ["bad", *(f"e{n}" for n in range(2 * NOTES_MAX + 1, 3 * NOTES_MAX))]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (note("a", part(0), tier="index"), "the tier of an audit is 'index'"),
        (note("", part(0)), "the name of an audit"),
        (note("a\x1b[2J", part(0)), "the name of an audit"),
        (note("a" * (NAME_MAX + 1), part(0)), "the name of an audit"),
        (note("a", part(4)), "there is no 4 to audit"),
        (note("a", part(-1)), "there is no -1"),
        (note("a", part(1), part(1)), "names a partition twice"),
        (note("a", replace(part(0), rows=-1)), "a number that it cannot hold"),
        (note("a", replace(part(0), until=Offset(-2))), "a number that it cannot hold"),
        (note("a", replace(part(0), checked_ms=5)), "a number that it cannot hold"),
        (note("a", part(0, 1, "unverified")), "the verdict of an audit is 'unverified'"),
        (note("a", part(0, 1, "different", "x" * (REASON_MAX + 1))), "the reason of an audit"),
        (note("a", part(0, 1, "different", "\n")), "the reason of an audit"),
    ],
)
def test_what_can_be_no_note(wrong: AuditNote, why: str) -> None:
    assert why in wrong.wrong(4)
    assert note("a", part(0), part(3)).wrong(4) == ""


PARTS = st.builds(
    AuditedPart,
    st.integers(0, 3).map(Partition),
    st.integers(0, 9),
    st.integers(-1, 9).map(Offset),
    st.sampled_from(["equal", "different", "not compared"]),
    st.sampled_from(["", "offset 3"]),
)
NOTES = st.builds(
    AuditNote,
    st.sampled_from(TIERS),
    st.sampled_from("abcdefg"),
    st.lists(PARTS, max_size=4, unique_by=lambda each: each.partition).map(tuple),
)


@given(st.lists(NOTES, max_size=40))
def test_what_is_kept_is_bounded_and_sorted(given_notes: list[AuditNote]) -> None:
    notes: tuple[AuditNote, ...] = ()
    for time_ms, each in enumerate(given_notes, start=1):
        notes = with_note(notes, each, time_ms)
        for tier in TIERS:
            names = [known.name for known in notes if known.tier == tier]
            assert len(names) == len(set(names)) <= NOTES_MAX
        for known in notes:
            numbers = [found.partition for found in known.parts]
            assert numbers == sorted(set(numbers))
            assert known.parts, "a note says something"
            assert note_from(note_row(known)) == known == note_from(note_row(known), strict=True)
            assert all(known.part(found.partition) == found for found in known.parts)
        if each.parts:
            newest = each.parts[0]
            found = [part for note, part in noted_of(notes, newest.partition) if note.name == each.name]
            assert replace(newest, checked_ms=time_ms) in found, "what has just come is shown"
