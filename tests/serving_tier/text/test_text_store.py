"""A text index of one replica against a model: a dict of rows, whose words are looked at one after the other."""

from __future__ import annotations

import json
import random
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from log_tier.model.errors import InvalidRequest
from log_tier.model.identifiers import Offset
from log_tier.rows.text_index import TextIndex
from serving_tier.text.text_damage import TextDamaged
from serving_tier.text.text_page import TextPiece, TextPoint, TextRow
from serving_tier.text.text_rows import text_row
from serving_tier.text.text_store import TextStore

FORM = TextIndex(7, "words", ("remark", "origin.name"))
WORDS = ("fog", "snow", "rain", "wind", "delayed", "newark")
IDENTITY = {"table": "T", "partition": 0, "version": 1, "number": 7}


def read(value: bytes, _at: int) -> list[str | None]:
    remark, name = json.loads(value)
    return [remark, name]


def row(remark: str | None, name: str | None = None, *, version: int = 1, expires_at_ms: int = 0) -> TextRow:
    return TextRow(json.dumps([remark, name]).encode(), version, expires_at_ms)


def store_in(folder: Path) -> TextStore:
    return TextStore.open(FORM, folder, IDENTITY, lambda path: path.mkdir(parents=True, exist_ok=True))


def built(folder: Path, rows: Mapping[bytes, TextRow | None] | None = None) -> TextStore:
    store = store_in(folder)
    assert store.load(iter((rows or {}).items()), TextPoint(Offset(0), 0), read, anew=True)
    return store


def found(store: TextStore, query: str, limit: int = 1000) -> dict[bytes, TextRow]:
    page = store.search(query, limit)
    keys = [hit.key for hit in page.hits]
    assert len(set(keys)) == len(keys), f"a row is found twice: {keys}"
    scores = [hit.score for hit in page.hits]
    assert scores == sorted(scores, reverse=True)
    return {hit.key: hit.row for hit in page.hits}


def test_a_row_is_found_by_its_words_and_by_field(tmp_path: Path) -> None:
    store = built(tmp_path, {b"a\xff\0": row("Heavy FOG", "Newark"), b"b": row("snow"), b"c": row(None, None)})
    assert found(store, "fog") == {b"a\xff\0": row("Heavy FOG", "Newark")}
    assert found(store, "origin.name:newark AND heavy").keys() == {b"a\xff\0"}
    assert found(store, "remark:newark") == {}
    assert found(store, '"heavy fog"').keys() == {b"a\xff\0"}
    assert found(store, '"fog heavy"') == {}
    assert found(store, "fog snow").keys() == {b"a\xff\0", b"b"}
    assert found(store, "point") == {}


def test_highlights_count_characters(tmp_path: Path) -> None:
    store = built(tmp_path, {b"a": row("überall 😀 fog, Fog", "Zürich")})
    (hit,) = store.search("fog zürich", 5).hits
    assert hit.highlights == (
        TextPiece("remark", "überall 😀 fog, Fog", ((10, 13), (15, 18))),
        TextPiece("origin.name", "Zürich", ((0, 6),)),
    )
    assert all(
        piece.text[start:end].lower() in ("fog", "zürich") for piece in hit.highlights for start, end in piece.spans
    )


def test_a_limit_has_the_best_rows(tmp_path: Path) -> None:
    store = built(tmp_path, {b"%d" % n: row("fog " * (n + 1) + "word " * (20 - n)) for n in range(20)})
    assert [hit.key for hit in store.search("fog", 3).hits] == [b"19", b"18", b"17"]


def test_a_newer_layer_covers_what_is_on_disk(tmp_path: Path) -> None:
    store = built(tmp_path, {b"%d" % n: row("fog") for n in range(50)})
    store.put({b"%d" % n: row("snow") for n in range(40)} | {b"40": None}, TextPoint(Offset(5), 0), read)
    assert found(store, "fog", 20).keys() == {b"%d" % n for n in range(41, 50)}
    assert len(found(store, "snow", 1000)) == 40
    store.begin_settling()
    store.put({b"41": None, b"0": row("rain")}, TextPoint(Offset(6), 0), read)
    for _ in range(2):
        assert found(store, "fog").keys() == {b"%d" % n for n in range(42, 50)}
        assert found(store, "rain").keys() == {b"0"}
        assert len(found(store, "snow")) == 39
        assert store.search("fog", 1).point.applied == 6
        store.settle()
    assert store.point_on_disk == TextPoint(Offset(5), 0)


def test_an_expired_row_is_not_found_and_is_removed(tmp_path: Path) -> None:
    store = built(tmp_path, {b"a": row("fog", expires_at_ms=100), b"b": row("fog")})
    store.put({b"c": row("fog", expires_at_ms=90)}, TextPoint(Offset(1), 89), read)
    assert found(store, "fog").keys() == {b"a", b"b", b"c"}
    store.put({}, TextPoint(Offset(2), 99), read)
    assert found(store, "fog").keys() == {b"a", b"b"}
    store.put({}, TextPoint(Offset(3), 100), read)
    assert found(store, "fog", 1).keys() == {b"b"}
    store.begin_settling()
    store.settle()
    assert found(store, "fog").keys() == {b"b"}
    assert store._disk.searcher.num_docs == 2, "an expired row is on disk"


@pytest.mark.parametrize("seed", range(4))
def test_random_steps_against_the_model(tmp_path: Path, seed: int) -> None:
    steps = random.Random(seed)
    model: dict[bytes, TextRow] = {}
    on_disk: dict[bytes, TextRow] = {}
    offset, log_time = 0, 0
    store = built(tmp_path)

    def matching(rows: Mapping[bytes, TextRow], word: str) -> dict[bytes, TextRow]:
        return {
            key: each
            for key, each in rows.items()
            if word in str(read(each.value, 0)[0]).split() and not 0 < each.expires_at_ms <= log_time
        }

    for _ in range(60):
        step = steps.random()
        if step < 0.6:
            offset, log_time = offset + 1, log_time + steps.randrange(3)
            changes: dict[bytes, TextRow | None] = {}
            for _ in range(steps.randrange(8)):
                key = b"k%d" % steps.randrange(30)
                expires = log_time + steps.randrange(1, 9) if steps.random() < 0.2 else 0
                text = " ".join(steps.sample(WORDS, 2))
                changes[key] = row(text, version=offset, expires_at_ms=expires) if steps.random() < 0.8 else None
            store.put(changes, TextPoint(Offset(offset), log_time), read)
            for key, each in changes.items():
                model.pop(key, None)
                if each is not None:
                    model[key] = each
        elif step < 0.75:
            store.begin_settling()
            store.settle()
            on_disk = dict(model)
        elif step < 0.8 and store.point_on_disk is not None:
            store.close()
            store = store_in(tmp_path)  # what was in memory is lost, as in a crash: the log has the keys
            assert store.point_on_disk is not None
            lost = {key: model.get(key) for key in model.keys() | on_disk.keys()}
            assert store.load(iter(lost.items()), TextPoint(Offset(offset), log_time), read, anew=False)
            on_disk = dict(model)
        word = steps.choice(WORDS)
        assert found(store, word) == matching(model, word)
        assert store.point == TextPoint(Offset(offset), log_time)


def test_an_index_of_something_else_has_no_point(tmp_path: Path) -> None:
    built(tmp_path, {b"a": row("fog")}).close()
    assert store_in(tmp_path).point_on_disk == TextPoint(Offset(0), 0)
    for other in ({"partition": 1}, {"version": 2}, {"table": "U"}):
        store = TextStore.open(FORM, tmp_path, {**IDENTITY, **other}, lambda _: None)
        assert store.point_on_disk is None
        store.load(iter([]), TextPoint(Offset(3), 0), read, anew=True)
        assert found(store, "fog") == {}, "rows of another index are found"
        store.close()


@pytest.mark.parametrize("harm", ["emptied", "cut", "other fields", "noise", "no commit", "a file"])
def test_a_damaged_folder_is_made_anew(tmp_path: Path, harm: str) -> None:
    folder = tmp_path / "text-7"
    built(folder, {b"a": row("fog")}).close()
    form = FORM
    if harm == "emptied":
        shutil.rmtree(folder)
    elif harm == "cut":
        (folder / "meta.json").write_bytes((folder / "meta.json").read_bytes()[:20])
    elif harm == "noise":
        for each in folder.glob("*.store"):
            each.write_bytes(b"\xff" * 64)
    elif harm == "no commit":
        for each in folder.glob("*.term"):
            each.unlink()
    elif harm == "a file":
        shutil.rmtree(folder)
        folder.write_bytes(b"")
    else:
        form = TextIndex(7, "words", ("remark",))
    make: Any = lambda path: path.mkdir(parents=True, exist_ok=True)  # noqa: E731
    store = TextStore.open(form, folder, IDENTITY, make)
    assert store.point_on_disk is None, f"a folder that was {harm} is trusted"
    read_one = read if form is FORM else lambda value, at: read(value, at)[:1]
    assert store.load(iter([(b"b", row("snow"))]), TextPoint(Offset(9), 0), read_one, anew=True)
    assert found(store, "snow fog").keys() == {b"b"}


def test_a_build_that_is_given_up_changes_nothing(tmp_path: Path) -> None:
    store = built(tmp_path, {b"a": row("fog")})
    many = ((b"%d" % n, row("snow")) for n in range(10_000))
    assert not store.load(many, TextPoint(Offset(9), 0), read, anew=True, still=lambda: False)
    assert found(store, "fog snow").keys() == {b"a"}
    store.close()
    assert store_in(tmp_path).point_on_disk == TextPoint(Offset(0), 0)


def test_two_searchers_and_a_writer_at_once(tmp_path: Path) -> None:
    """A put moves one word from a key to another: at each point exactly one of them has it."""
    store = built(tmp_path, {b"a": row("fog"), b"b": row("snow")})
    ended, wrong = threading.Event(), list[object]()

    def search() -> None:
        while not ended.is_set():
            page = store.search("fog", 10)
            if [hit.key for hit in page.hits] != [b"ab"[page.point.applied % 2 :][:1]]:
                wrong.append(page)
                return

    searchers = [threading.Thread(target=search) for _ in range(2)]
    for each in searchers:
        each.start()
    for offset in range(1, 60):
        first, second = (row("snow"), row("fog")) if offset % 2 else (row("fog"), row("snow"))
        store.put({b"a": first, b"b": second}, TextPoint(Offset(offset), 0), read)
        if offset % 20 == 0:
            store.begin_settling()
            store.settle()
    ended.set()
    for each in searchers:
        each.join()
    assert not wrong


def test_a_settle_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = built(tmp_path, {b"a": row("fog")})
    store.put({b"a": None, b"b": row("fog")}, TextPoint(Offset(1), 0), read)
    store.begin_settling()
    with monkeypatch.context() as patched:
        patched.setattr(store._disk, "write", _refuse)
        with pytest.raises(TextDamaged, match="no space"):
            store.settle()
    assert found(store, "fog").keys() == {b"b"}
    store.put({b"c": row("fog")}, TextPoint(Offset(2), 0), read)
    store.begin_settling()
    store.settle()
    assert found(store, "fog").keys() == {b"b", b"c"}
    store.close()
    again = store_in(tmp_path)
    assert again.point_on_disk == TextPoint(Offset(2), 0)
    assert again.load(iter([]), TextPoint(Offset(2), 0), read, anew=False)
    assert found(again, "fog").keys() == {b"b", b"c"}


def _refuse(*_: object, **__: object) -> None:
    raise OSError("no space")


def test_a_query_that_tantivy_refuses_is_the_callers_mistake(tmp_path: Path) -> None:
    store = built(tmp_path)
    for query in ("AND", "(", '"', "it's", "NOT fog", "fog AND"):
        with pytest.raises(InvalidRequest, match="cannot be searched for"):
            store.search(query, 5)


def test_what_has_expired_is_no_row() -> None:
    from serving_tier.fold.entry import stored_entry

    stored = stored_entry(b"value", 3, 100)
    assert text_row(stored, 99) == TextRow(b"value", 3, 100)
    assert text_row(stored, 100) is None
