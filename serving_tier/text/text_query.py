"""What a query may be: words, phrases, fields, AND, OR, NOT, + and -, parentheses and boosts, all of them few.

    delayed AND newark      both words            remark:fog          a word of one field
    "gate change"~2         a phrase, two apart   "gate cha"*         a phrase whose last word begins so
    +fog -snow              with, without         fog^2 OR snow       fog counts double

Ranges, sets, wildcards, regular expressions and escapes are refused: what they cost grows with all words of an index,
or with the query's own nesting, and tantivy cannot be interrupted. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NoReturn

from log_tier.model.errors import InvalidRequest, LimitExceeded

__all__ = ["QUERY_CHARS_MAX", "QUERY_DEPTH_MAX", "QUERY_WORDS_MAX", "check_query"]

QUERY_CHARS_MAX: Final = 1000

QUERY_WORDS_MAX: Final = 64
"""Each word is a list of rows that is walked."""

QUERY_DEPTH_MAX: Final = 8
"""Of parentheses: the parser calls itself."""

_QUOTED: Final = re.compile(r"\"[^\"\\]*\"|'[^'\\]*'")
_BEHIND_QUOTES: Final = re.compile(r"(?<=\x00)(?:~\d{1,2}(?!\d)|\*)")
_BOOST: Final = re.compile(r"\^\d{1,3}(?:\.\d{1,3})?(?![\w.])")
_FIELD: Final = re.compile(r"([^\s()+\-:\x00]*)\s*:")
_FORBIDDEN: Final = re.compile(r"[\[\]{}<>/*\\^~`]")
_SIGNS: Final = re.compile(r"(?<!\w)[-+]{2,}")
_WORD: Final = re.compile(r"\w+")


def check_query(query: str, fields: Sequence[str]) -> None:
    """Raise `InvalidRequest` for a query that is none, or names no field of the index, `LimitExceeded` for one that is
    too large. O(query).
    """
    if len(query) > QUERY_CHARS_MAX:
        _too_large("characters", len(query), QUERY_CHARS_MAX)
    if not query.strip():
        _refuse("it is empty")
    if "\0" in query or not query.isprintable():
        _refuse("it has a character that cannot be printed")
    words = len(_WORD.findall(query))
    if words > QUERY_WORDS_MAX:
        _too_large("words", words, QUERY_WORDS_MAX)
    bare = _BOOST.sub("", _BEHIND_QUOTES.sub("", _QUOTED.sub("\0", query)))
    for name in _FIELD.findall(bare):
        if name not in fields:
            _refuse(f"the index has no field {ascii(name)[:60]}, it has {', '.join(fields)}")
    found = _FORBIDDEN.search(bare)
    if found is not None:
        _refuse(f"{found[0]} outside of quotes is not served: words, phrases, fields, AND, OR, NOT, + and - are")
    if _SIGNS.search(bare):
        _refuse("one sign, + or -, is in front of a word")
    depth = 0
    for char in bare:
        depth += (char == "(") - (char == ")")
        if depth > QUERY_DEPTH_MAX:
            _too_large("parentheses inside each other", depth, QUERY_DEPTH_MAX)


def _refuse(why: str) -> NoReturn:
    raise InvalidRequest(f"the query cannot be searched for: {why}")


def _too_large(what: str, size: int, limit: int) -> NoReturn:
    raise LimitExceeded(f"a query has at most {limit} {what}, this one {size}", limit=limit, size=size)
