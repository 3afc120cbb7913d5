"""The plan of a partition's repair, case by case: a letter is a batch of one offset.

abc..fg     a partition with a hole of two offsets; `|` ends a file
ab?         the hole at the end is open: so many offsets at least are missing
"""

from __future__ import annotations

import pytest

from log_tier.embedded.repair.facts import (
    BatchRun,
    CopyFacts,
    CopySegment,
    FoundBatch,
    Hole,
    Known,
    PartitionFacts,
    digest_of,
)
from log_tier.embedded.repair.partition_plan import Keep, PartitionPlan, Shell, Take, plan_partition
from log_tier.model.batch_header import BatchHeader
from log_tier.model.identifiers import (
    Offset,
    OffsetRange,
    merged_ranges,
    parse_range,
    parse_ranges,
    ranges_text,
    ranges_without,
)

BYTES = 100


def header(letter: str, offset: int) -> BatchHeader:
    """A batch of one record. Its content and its time follow from the letter."""
    check = ord(letter)
    time = check if letter.islower() else check + 1000
    return BatchHeader(b"DuLb", 2, 0, 0, BYTES, check, Offset(offset), time, 0, check, 0, 0, 1, 1)


def facts_of(text: str, *, compacted: int = 0, trimmed: int = 0) -> PartitionFacts:
    items: list[BatchRun | Hole] = []
    base, position = trimmed, 0
    offset = trimmed
    for letter in text:
        last = items[-1] if items else None
        if letter == "|":
            base, position = offset, 0
            items.append(Hole(Offset(offset), Offset(offset), None, "end of a file"))
            continue
        if letter in ".?":
            if isinstance(last, Hole) and last.why != "end of a file":
                items[-1] = last._replace(end=Offset(offset + 1))
            else:
                items.append(Hole(Offset(offset), Offset(offset + 1), Offset(base), "zeros", is_open=letter == "?"))
        else:
            one = header(letter, offset)
            if isinstance(last, BatchRun):
                digest = digest_of([one], last.digest)
                items[-1] = last._replace(end_position=position + BYTES, last=one, digest=digest)
            else:
                items.append(BatchRun(Offset(base), position, position + BYTES, one, one, digest_of([one])))
        offset, position = offset + 1, position + BYTES
    items = [each for each in items if not (isinstance(each, Hole) and each.why == "end of a file")]
    known = Known(Offset(trimmed), Offset(offset), Offset(base), 0, Offset(compacted))
    return PartitionFacts("flights/0", items, known, trimmed > 0, Offset(offset))


def copy_of(text: str, *, first: int = 0, compacted: int = 0) -> CopyFacts:
    segments: list[CopySegment] = []
    base, offset = first, first
    batches: list[FoundBatch] = []
    damaged: list[OffsetRange] = []
    for letter in [*text, "|"]:
        if letter == "|":
            segments.append(CopySegment(Offset(base), batches, merged_ranges(damaged)))
            base, batches, damaged = offset, [], []
            continue
        if letter == ".":
            damaged.append(OffsetRange(Offset(offset), Offset(offset)))
        elif letter != "_":
            batches.append(FoundBatch((offset - base) * BYTES, header(letter, offset)))
        offset += 1
    known = Known(Offset(first), Offset(offset), Offset(base), 0, Offset(compacted))
    return CopyFacts(segments, Offset(first), Offset(offset), known)


def shown(plan: PartitionPlan) -> str:
    """A plan in a line: for each file its base, and what it gets."""
    if plan.refusals:
        (refusal,) = plan.refusals
        return f"refused {ranges_text(refusal.offsets)}: {refusal.why}"
    files = []
    for base, pieces in plan.segments:
        parts = []
        for piece in pieces:
            if isinstance(piece, Shell):
                parts.append(f"shell {piece.first}-{piece.end - 1} at {piece.timestamp_ms}")
            else:
                kind = "keep" if isinstance(piece, Keep) else "take"
                parts.append(f"{kind} {piece.segment}:{piece.position // BYTES}-{piece.end_position // BYTES}")
        files.append(f"{base} = {', '.join(parts)}")
    return "; ".join(files)


A = ord("a")

TAKEN = [
    ("abc..fg", "abcdefg", "0 = keep 0:0-3, take 0:3-5, keep 0:5-7"),
    ("..cd", "abcd", "0 = take 0:0-2, keep 0:2-4"),
    ("ab|c.e|fg", "ab|cde|fg", "2 = keep 2:0-1, take 2:1-2, keep 2:2-3"),
    ("ab..|ef", "abcd|ef", "0 = keep 0:0-2, take 0:2-4"),
    ("ab..|ef", "ab|cd|ef", "0 = keep 0:0-2; 2 = take 2:0-2"),
    ("ab??", "abcdef", "0 = keep 0:0-2, take 0:2-6"),
    ("ab??", "abcd|ef", "0 = keep 0:0-2, take 0:2-4; 4 = take 4:0-2"),
    ("a.c.e", "abcde", "0 = keep 0:0-1, take 0:1-2, keep 0:2-3, take 0:3-4, keep 0:4-5"),
    ("abcd", "abcdef", ""),
]
"""The partition, the copy, the files that are written."""


@pytest.mark.parametrize(("ours", "theirs", "expected"), TAKEN)
def test_what_the_copy_has_is_taken(ours: str, theirs: str, expected: str) -> None:
    assert shown(plan_partition(facts_of(ours), copy_of(theirs), [])) == expected


REFUSED = [
    ("abc..fg", "abcd", "4", "the copy does not have them: it holds offsets 0 to 3"),
    ("abc..fg", "abc.efg", "3", "offsets 0 to 6, and offset 3 are damaged in it"),
    ("ab??", "ab", "2-3", "it holds offsets 0 to 1"),
    ("ab??", "", "2-3", "the copy holds nothing of this partition"),
    ("abc..fg", "abcdeXY", "3-4", "of another history of this log: at offset 5 it holds"),
    ("ab??", "aXYZ", "2-3", "of another history of this log: at offset 1 it holds"),
    ("abc..fg", "abcXYfg", "3-4", "of another history of this log: offset 4 is of"),
    ("ab..e", "__cd", "2-3", "cannot be compared with the log"),
]


@pytest.mark.parametrize(("ours", "theirs", "offsets", "why"), REFUSED)
def test_what_is_refused(ours: str, theirs: str, offsets: str, why: str) -> None:
    said = shown(plan_partition(facts_of(ours), copy_of(theirs), []))
    assert said.startswith(f"refused {offsets}: ")
    assert why in said


GIVEN_UP = [
    ("abc..fg", None, "3-4", f"0 = keep 0:0-3, shell 3-4 at {A + 2}, keep 0:5-7"),
    ("abc..fg", "abcd", "4", f"0 = keep 0:0-3, take 0:3-4, shell 4-4 at {A + 3}, keep 0:5-7"),
    ("abc..fg", "abcd", "0-9", f"0 = keep 0:0-3, take 0:3-4, shell 4-4 at {A + 3}, keep 0:5-7, shell 7-9 at {A + 6}"),
    (
        "abc..fg..j",
        "abc.efg.ij",
        "3 7",
        f"0 = keep 0:0-3, shell 3-3 at {A + 2}, take 0:4-5, keep 0:5-7, shell 7-7 at {A + 6}, take 0:8-9, keep 0:9-10",
    ),
    (
        "abc.....i",
        "abc.e.g.i",
        "3-7",
        f"0 = keep 0:0-3, shell 3-3 at {A + 2}, take 0:4-5, shell 5-5 at {A + 4}, take 0:6-7, "
        f"shell 7-7 at {A + 6}, keep 0:8-9",
    ),
    ("..c", None, "0-1", f"0 = shell 0-1 at {A + 2}, keep 0:2-3"),
    ("ab??", None, "2-3", f"0 = keep 0:0-2, shell 2-3 at {A + 1}"),
    ("ab??", "abc", "3-5", f"0 = keep 0:0-2, take 0:2-3, shell 3-5 at {A + 2}"),
    ("abcd", None, "4-5", f"0 = keep 0:0-4, shell 4-5 at {A + 3}"),
    ("abcd", None, "1-2", ""),
    ("abc..fg", "abcdeXY", "3-4", f"0 = keep 0:0-3, shell 3-4 at {A + 2}, keep 0:5-7"),
]


@pytest.mark.parametrize(("ours", "theirs", "given_up", "expected"), GIVEN_UP)
def test_what_is_given_up(ours: str, theirs: str | None, given_up: str, expected: str) -> None:
    copy = None if theirs is None else copy_of(theirs)
    plan = plan_partition(facts_of(ours), copy, parse_ranges(given_up))
    assert shown(plan) == expected
    assert bool(plan.given_up) == ("shell" in expected)
    assert plan.record == plan.given_up


def test_the_beginning_of_a_trimmed_partition_is_trimmed_once_more() -> None:
    plan = plan_partition(facts_of("..cd|ef", trimmed=50), None, parse_ranges("50-51"))
    assert shown(plan) == "52 = keep 50:2-4"
    assert (plan.earliest, plan.given_up, plan.trimmed) == (52, (), parse_ranges("50-51"))


COMPACTED = [
    (4, 4, "ab.d|ef", "ab_d|ef", "0 = keep 0:0-2, keep 0:3-4"),
    (4, 4, "ab.d|ef", "abcd|ef", "0 = keep 0:0-2, take 0:2-3, keep 0:3-4"),
    (4, 0, "ab.d|ef", "abcd|ef", "compacted below offset 4, and the copy, in another way, below 0"),
    (0, 4, "ab.d|ef", "abcd|ef", "compacted below offset 0, and the copy, in another way, below 4"),
    (4, 4, "ab.d|ef", "Xbcd|ef", "compacted below offset 4, and the copy, in another way, below 4"),
    (4, 0, "abcd|e.g", "abcd|efg", "4 = keep 4:0-1, take 4:1-2, keep 4:2-3"),
]


@pytest.mark.parametrize(("ours_to", "theirs_to", "ours", "theirs", "expected"), COMPACTED)
def test_compactions_are_not_mixed(ours_to: int, theirs_to: int, ours: str, theirs: str, expected: str) -> None:
    said = shown(plan_partition(facts_of(ours, compacted=ours_to), copy_of(theirs, compacted=theirs_to), []))
    assert expected in said
    assert said.startswith("refused") == ("another way" in expected)


def test_other_batch_boundaries_are_another_history() -> None:
    wide = header("c", 2)._replace(span=3)
    copy = copy_of("ab")
    segment = copy.segments[0]
    segment = segment._replace(batches=[*segment.batches, FoundBatch(2 * BYTES, wide)])
    copy = copy._replace(segments=[segment], end=Offset(5))
    said = shown(plan_partition(facts_of("ab..ef"), copy, []))
    assert "its batch of offsets 2 to 4 does not fit between offset 2 and offset 4" in said


def test_what_a_newer_version_wrote_is_not_given_up() -> None:
    facts = facts_of("ab.d")
    hole = facts.holes[0]._replace(is_newer=True, why="the batch has format version 3")
    items = [hole if isinstance(each, Hole) else each for each in facts.items]
    newer = PartitionFacts(facts.name, items, facts.known, False, facts.end)
    said = shown(plan_partition(newer, None, parse_ranges("2")))
    assert said.startswith("refused : the batch has format version 3. Nothing of a newer version is given up: update")


def test_a_file_that_is_only_too_short_lost_nothing_if_the_copy_ends_there() -> None:
    facts = facts_of("abc?")
    hole = facts.items[-1]
    assert isinstance(hole, Hole)
    doubtful = PartitionFacts(
        facts.name, [facts.items[0], hole._replace(is_doubtful=True)], facts.known, False, facts.end
    )
    older = copy_of("ab")
    same = copy_of("abc")
    same = same._replace(known=same.known._replace(end=facts.known.end, newest_segment=facts.known.newest_segment))
    assert shown(plan_partition(doubtful, same, [])) == "0 = keep 0:0-3"
    assert shown(plan_partition(doubtful, older, [])).startswith("refused 3: ")
    assert shown(plan_partition(doubtful, copy_of("abc"), [])).startswith("refused 3: "), "an older copy ends there too"


def test_ranges() -> None:
    ranges = parse_ranges("12 5-7 8")
    assert ranges_text(ranges) == "5-8 12"
    assert ranges_without(ranges, parse_ranges("6-7 12-20")) == (
        OffsetRange(Offset(5), Offset(5)),
        OffsetRange(Offset(8), Offset(8)),
    )
    assert ranges_without(ranges, ranges) == ()
    for text in ("", "7-5", "x", "-1", "1-2-3", "٣"):
        with pytest.raises(ValueError, match=r"like 5-7 or 12|ends before it begins"):
            parse_range(text)


def test_takes_name_the_copys_file() -> None:
    plan = plan_partition(facts_of("a.c"), copy_of("abc"), [])
    assert plan.segments[0].pieces[1] == Take(Offset(0), BYTES, 2 * BYTES)
    assert plan.taken == [OffsetRange(Offset(1), Offset(1))]
