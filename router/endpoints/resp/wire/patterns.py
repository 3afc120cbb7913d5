"""Glob patterns as Redis reads them: `*`, `?`, `[a-z]`, `[^a]`, and `\\` before any literal byte. Pure.

A pattern is cut at its stars into segments. Each segment matches a fixed number of bytes, so the leftmost place of one
after the end of the one before is always the right place, and nothing is ever tried twice: matching never backtracks
over a star. The first segment is compared at the key's beginning, the last one at its end, and each one between them is
searched once (https://research.swtch.com/glob).

Cost, for a key of `n` bytes: O(n) where segments are literal bytes. A segment of `m` bytes with `?` or classes is
searched in O(n · m); `Glob.steps` has that bound, and commands that match many keys divide them into turns by it. A
pattern that needs more bytes than a key can have is refused in O(1), so both factors are bounded.

Redis' corner cases, which `tests/router/endpoints/resp/wire/test_patterns.py` compares with a server:

- a class that is not closed ends with the pattern; `[]` matches nothing, `[^]` matches every byte;
- `]` directly after `[` closes the class, and `[a-]` begins a range that ends in `]`;
- a backslash at the end is itself; within a class it takes the meaning from `]` and `-`, but not at a range's end.

One thing differs: a range compares bytes by their numbers 0 to 255. Redis compares them as C's `char`, which is signed
on some processors and unsigned on others; only a range from ASCII to above it shows that.
"""

from __future__ import annotations

import re
from typing import Final

from log_tier.model.record import KEY_BYTES_MAX
from router.endpoints.resp.wire.replies import Problem

__all__ = ["PATTERN_BYTES_MAX", "PATTERN_CLASSES_MAX", "Glob", "check_pattern"]

PATTERN_BYTES_MAX: Final = 4096
"""Eight bytes for each byte of the longest key. Reading and compiling that much takes 1 to 3 ms."""

PATTERN_CLASSES_MAX: Final = 128
"""Compiling a class takes up to 30 µs. A word in any letters (`[Uu][Ss][Ee][Rr]`) has one for each letter."""

# What is matched: a key, or the name of a key's channel (`__keyspace@15__:key`).
_SUBJECT_BYTES_MAX: Final = KEY_BYTES_MAX + 64

_STAR: Final = 0x2A
_QUESTION: Final = 0x3F
_OPEN: Final = 0x5B
_CLOSE: Final = 0x5D
_BACKSLASH: Final = 0x5C
_CARET: Final = 0x5E
_DASH: Final = 0x2D

_ANY: Final = frozenset(range(256))


def check_pattern(pattern: bytes) -> None:
    """Raises `Problem` for a pattern that is too long, or that may have too many classes. No copy, 1 µs."""
    if len(pattern) > PATTERN_BYTES_MAX:
        raise Problem(
            f"ERR a pattern has at most {PATTERN_BYTES_MAX} bytes, not {len(pattern)}: keys have at most "
            f"{KEY_BYTES_MAX}"
        )
    classes = pattern.count(b"[")
    if classes > PATTERN_CLASSES_MAX:
        raise Problem(f"ERR a pattern has at most {PATTERN_CLASSES_MAX} classes, not {classes}: use ? for some of them")


class Glob:
    """A compiled pattern.

    >>> glob = Glob(b"user:*:[0-9]")
    >>> glob.matches(b"user:anna:7"), glob.matches(b"user:anna:x"), glob.prefix
    (True, False, b'user:')
    """

    __slots__ = ("_end", "_least", "_middle", "_starred", "_start", "_width", "everything", "prefix")

    def __init__(self, pattern: bytes) -> None:
        """Raises what `check_pattern` raises. At most 4 ms."""
        check_pattern(pattern)
        segments = _segments(pattern)
        self.prefix = _literal_prefix(segments[0])
        """The bytes with which everything that matches begins."""
        self._least = sum(map(len, segments))
        """A subject with fewer bytes does not match."""
        self._starred = len(segments) > 1
        self.everything = self._starred and self._least == 0
        """Does every key match?"""
        possible = self._least <= _SUBJECT_BYTES_MAX
        middle = [segment for segment in segments[1:-1] if segment] if possible else []
        self._start = _Segment(segments[0] if possible else [])
        self._end = _Segment(segments[-1] if possible and self._starred else [])
        self._middle = [_literal_of(segment) or _Segment(segment) for segment in middle]
        """Literal ones are bytes, to save memory: a pattern may have hundreds, and there may be thousands of them."""
        self._width = max((segment.width for segment in self._middle if isinstance(segment, _Segment)), default=1)

    def steps(self, size: int) -> int:
        """At most so many bytes are compared for a subject of `size` bytes, but for a small constant factor."""
        return size * self._width

    def matches(self, subject: bytes) -> bool:
        """Does the pattern match all of `subject`? 0.2 to 0.6 µs where segments are literal."""
        size = len(subject)
        least = self._least
        if size < least or (size > least and not self._starred) or size > _SUBJECT_BYTES_MAX:
            return False
        if not self._start.is_at(subject, 0):
            return False
        if not self._starred:
            return True
        end = size - self._end.size
        if not self._end.is_at(subject, end):
            return False
        at = self._start.size
        for segment in self._middle:
            at = subject.find(segment, at) if type(segment) is bytes else segment.find(subject, at)
            if at < 0:
                return False
            at += len(segment)
        return at <= end


class _Segment:
    """The part between two stars: a sequence of sets of bytes."""

    __slots__ = ("_expression", "_literal", "size", "width")

    def __init__(self, elements: list[frozenset[int]]) -> None:
        self.size = len(elements)
        self.width = 1
        """Comparisons for each byte of a subject that is searched for it."""
        self._literal = _literal_of(elements)
        self._expression: re.Pattern[bytes] | None = None
        if self._literal is None:
            self.width = self.size
            self._expression = re.compile(b"".join(map(_expression, elements)), re.DOTALL)

    def __len__(self) -> int:
        """The bytes that it matches."""
        return self.size

    def is_at(self, subject: bytes, at: int) -> bool:
        """Does it begin at this place?"""
        if self._expression is None:
            return subject.startswith(self._literal or b"", at)
        return self._expression.match(subject, at) is not None

    def find(self, subject: bytes, at: int) -> int:
        """Where it begins, from a place on; -1 where it does not."""
        if self._expression is None:
            return subject.find(self._literal or b"", at)
        found = self._expression.search(subject, at)
        return -1 if found is None else found.start()


def _literal_of(elements: list[frozenset[int]]) -> bytes | None:
    """The bytes of a segment that has no `?` and no class."""
    if any(len(element) != 1 for element in elements):
        return None
    return bytes([byte for element in elements for byte in element])


def _expression(element: frozenset[int]) -> bytes:
    if element == _ANY:
        return b"."
    if not element:
        return b"(?!)"
    if len(element) == 1:
        return b"\\x%02x" % next(iter(element))
    negated = len(element) > 128
    runs = _runs(_ANY - element if negated else element)
    return b"[%b%b]" % (b"^" if negated else b"", b"".join(b"\\x%02x-\\x%02x" % run for run in runs))


def _runs(element: frozenset[int]) -> list[tuple[int, int]]:
    """The first and last byte of each run of neighbours."""
    runs: list[tuple[int, int]] = []
    for byte in sorted(element):
        if runs and runs[-1][1] == byte - 1:
            runs[-1] = (runs[-1][0], byte)
        else:
            runs.append((byte, byte))
    return runs


def _literal_prefix(segment: list[frozenset[int]]) -> bytes:
    prefix = bytearray()
    for element in segment:
        if len(element) != 1:
            break
        prefix += bytes(element)
    return bytes(prefix)


def _segments(pattern: bytes) -> list[list[frozenset[int]]]:
    """The sets of bytes of each segment; one more segment than there are groups of stars."""
    segments: list[list[frozenset[int]]] = [[]]
    at, size = 0, len(pattern)
    while at < size:
        byte = pattern[at]
        at += 1
        if byte == _STAR:
            if segments[-1] or len(segments) == 1:
                segments.append([])
            continue
        if byte == _QUESTION:
            segments[-1].append(_ANY)
        elif byte == _OPEN:
            element, at = _class(pattern, at)
            segments[-1].append(element)
        else:
            if byte == _BACKSLASH and at < size:
                byte = pattern[at]
                at += 1
            segments[-1].append(frozenset((byte,)))
    return segments


def _class(pattern: bytes, at: int) -> tuple[frozenset[int], int]:
    """The class that begins after `[`, and where it ends. One that is not closed ends with the pattern."""
    size = len(pattern)
    negated = at < size and pattern[at] == _CARET
    at += negated
    members: set[int] = set()
    while at < size and pattern[at] != _CLOSE:
        if pattern[at] == _BACKSLASH and at + 1 < size:
            at += 1
            members.add(pattern[at])
        elif at + 2 < size and pattern[at + 1] == _DASH:
            first, last = sorted((pattern[at], pattern[at + 2]))
            members.update(range(first, last + 1))
            at += 2
        else:
            members.add(pattern[at])
        at += 1
    return (_ANY - members if negated else frozenset(members)), at + 1
