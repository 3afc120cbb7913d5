"""Text indexes: what a search takes next to tantivy alone over the same rows, and how long after a put it is found."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from time import perf_counter_ns
from typing import Any, Final

from bench.callers import WARMUP_SECONDS
from bench.drivers.duramen import TABLE
from bench.statistics import quantile
from bench.workload import Bar, Measurement, Needs, RunSettings, Side, Workload

__all__ = ["TEXT_SEARCH"]

_ROWS: Final = 100_000
_QUICK_DIVISOR: Final = 10
_WORDS: Final = 20_000
_WORDS_A_TEXT: Final = 20
_LIMIT: Final = 10

_NEEDS: Final = Needs(("tantivy", "duramen"), install="pip install 'duramen[text]'")


@dataclass
class BenchRemark:
    """A row with a text."""

    id: int
    remark: str


def _rows(settings: RunSettings) -> list[BenchRemark]:
    """Texts whose words are as frequent as those of a language: the second half as often as the first, and so on."""
    rng = random.Random(5)
    words = [f"w{number}" for number in range(_WORDS)]
    weights = [1 / (number + 1) for number in range(_WORDS)]
    count = _ROWS // _QUICK_DIVISOR if settings.quick else _ROWS
    return [BenchRemark(each, " ".join(rng.choices(words, weights, k=_WORDS_A_TEXT))) for each in range(count)]


def _queries() -> list[str]:
    rng = random.Random(6)
    joins = (" AND ", " OR ")
    return [f"w{rng.randrange(20, 2_000)}{rng.choice(joins)}w{rng.randrange(20, 2_000)}" for _ in range(2_000)]


def _timed(call: Callable[[str], object], seconds: float) -> dict[str, float]:
    asked = _queries()
    gc.collect()
    gc.freeze()
    opened = perf_counter_ns() + int(WARMUP_SECONDS * 1e9)
    closed = opened + int(seconds * 1e9)
    took: list[int] = []
    while True:
        for each in asked:
            started = perf_counter_ns()
            call(each)
            ended = perf_counter_ns()
            if started >= opened:
                took.append(ended - started)
            if ended >= closed and took:
                took.sort()
                mean_us = sum(took) / len(took) / 1000
                return {"mean_us": mean_us, "p50_us": quantile(took, 0.5) / 1000, "p99_us": quantile(took, 0.99) / 1000}


def _embedded(settings: RunSettings) -> Measurement:
    import duramen

    with duramen.open(settings.folder / "data") as db:
        table: Any = db.create_table(TABLE, row=BenchRemark, key="id", partitions=1)
        table.put_many(_rows(settings))
        table.create_index("words", "remark", kind="text", timeout=600)
        if not table.search("w1", limit=_LIMIT):
            raise AssertionError("what was put is not what is found")
        metrics = _timed(lambda query: table.search(query, limit=_LIMIT), settings.seconds)
    return Measurement(metrics, f"Duramen {version('duramen')}", "one partition; rows, scores and highlights")


def _tantivy(settings: RunSettings) -> Measurement:
    """The same texts in one index on disk, whose documents have them; each answer has ten with their highlights."""
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("remark", stored=True)
    builder.add_unsigned_field("id", stored=True)
    schema = builder.build()
    folder = settings.folder / "tantivy"
    folder.mkdir(parents=True)
    index = tantivy.Index(schema, path=str(folder))
    writer = index.writer(50_000_000, 1)
    for row in _rows(settings):
        document = tantivy.Document()
        document.add_text("remark", row.remark)
        document.add_unsigned("id", row.id)
        writer.add_document(document)
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(query: str) -> Sequence[object]:
        parsed = index.parse_query(query, ["remark"])
        snippets = tantivy.SnippetGenerator.create(searcher, parsed, schema, "remark")
        found = []
        for score, address in searcher.search(parsed, _LIMIT, count=False).hits:
            document = searcher.doc(address)
            snippet = snippets.snippet_from_doc(document)
            found.append((score, document.to_dict(), snippet.fragment(), snippet.highlighted()))
        return found

    if not search("w1"):
        raise AssertionError("what was put is not what is found")
    return Measurement(_timed(search, settings.seconds), f"tantivy {version('tantivy')}", "documents and highlights")


def _found(settings: RunSettings) -> Measurement:
    """One row after the other is put, and searched for with its token."""
    import duramen

    took: list[int] = []
    with duramen.open(settings.folder / "data") as db:
        table: Any = db.create_table(TABLE, row=BenchRemark, key="id", partitions=1)
        table.create_index("words", "remark", kind="text", timeout=600)
        closed = perf_counter_ns() + int((WARMUP_SECONDS + settings.seconds) * 1e9)
        number = 0
        while perf_counter_ns() < closed:
            number += 1
            done = table.put(BenchRemark(number, f"word{number} fog"))
            started = perf_counter_ns()
            found = table.search(f"word{number}", after=done.token)
            took.append(perf_counter_ns() - started)
            if [each.row.id for each in found] != [number]:
                raise AssertionError(f"a row that was put is not found with its token: {number}")
    took.sort()
    metrics = {"p50_us": quantile(took, 0.5) / 1000, "p99_us": quantile(took, 0.99) / 1000}
    return Measurement(metrics, f"Duramen {version('duramen')}", "from the acknowledgement to the answer, one caller")


TEXT_SEARCH: Final = (
    Workload(
        "text_search",
        f"search of two words in {_ROWS:,} texts, the best {_LIMIT} rows with highlights, inside one process",
        (Side("duramen", "subject", _embedded, _NEEDS), Side("tantivy", "floor", _tantivy, _NEEDS)),
        (Bar("mean_us", "at most", round(1 / 0.7, 2), "tantivy"),),
    ),
    Workload(
        "text_found",
        "from the acknowledgement of a put to the search that finds it with its token, inside one process",
        (Side("duramen", "subject", _found, _NEEDS),),
        (Bar("p99_us", "at most", 50_000),),
    ),
)
