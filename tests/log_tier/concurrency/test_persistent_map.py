"""The persistent map against a dict: thousands of random changes, of which every earlier state stays as it was."""

from __future__ import annotations

import random

import pytest

from log_tier.concurrency.persistent_map import PersistentMap


def test_every_state_is_what_a_dict_was_at_that_time() -> None:
    drawn = random.Random(20)
    here: PersistentMap[str, object] = PersistentMap()
    model: dict[str, object] = {}
    states = [(here, dict(model))]
    for _ in range(3000):
        key = f"key{drawn.randrange(700)}"
        if key in model and drawn.random() < 0.4:
            here = here.without(key)
            del model[key]
        else:
            model[key] = object()
            here = here.with_entry(key, model[key])
        if drawn.random() < 0.02:
            states.append((here, dict(model)))
    for kept, then in states:
        assert list(kept.items()) == list(then.items()), "in the order in which the keys came"
        assert (list(kept), list(kept.values()), len(kept)) == (list(then), list(then.values()), len(then))
        assert kept == then
        for number in range(700):
            key = f"key{number}"
            assert (key in kept, kept.get(key)) == (key in then, then.get(key))


def test_the_difference_of_two_states_is_what_changed_between_them() -> None:
    drawn = random.Random(21)
    here: PersistentMap[int, object] = PersistentMap((number, object()) for number in range(500))
    for _ in range(200):
        before = here
        for _ in range(drawn.randrange(6)):
            key = drawn.randrange(600)
            here = here.without(key) if key in here and drawn.random() < 0.5 else here.with_entry(key, object())
        changed, gone = here.since(before)
        assert changed == [key for key, value in here.items() if before.get(key) is not value]
        assert gone == [key for key in before if key not in here]
    assert here.since(here) == ([], [])
    other = PersistentMap(here)
    assert other.since(here) == ([], []), "of maps that do not share anything too"


def test_a_map_that_grows_and_shrinks_past_the_size_of_one_shard() -> None:
    drawn = random.Random(22)
    here: PersistentMap[int, object] = PersistentMap()
    model: dict[int, object] = {}
    states = [(here, dict(model))]
    for step in range(2000):
        key, grows = drawn.randrange(120), (step // 400) % 2 == 0
        if key in model and drawn.random() < (0.2 if grows else 0.8):
            here = here.without(key)
            del model[key]
        else:
            model[key] = object()
            here = here.with_entry(key, model[key])
        if step % 20 == 0:
            states.append((here, dict(model)))
    for one, then in states:
        assert list(one.items()) == list(then.items())
        other, later = drawn.choice(states)
        changed, gone = other.since(one)
        assert changed == [key for key, value in later.items() if then.get(key) is not value]
        assert gone == [key for key in then if key not in later]


def test_what_is_not_there() -> None:
    empty: PersistentMap[str, int] = PersistentMap()
    with pytest.raises(KeyError, match="absent"):
        empty.without("absent")
    with pytest.raises(KeyError, match="absent"):
        empty["absent"]
    assert (empty.get("absent"), empty.get("absent", 3)) == (None, 3)
    assert repr(empty.with_entry("a", 1)) == "PersistentMap({'a': 1})"


def test_a_change_copies_one_shard_and_no_other() -> None:
    """What makes it cheap: all other entries are the same objects in the same places."""
    before = PersistentMap((number, number) for number in range(10_000))
    after = before.with_entry(10_000, 10_000)
    assert sum(one is not other for one, other in zip(before._shards, after._shards, strict=True)) == 1
    again = after.without(10_000)
    assert sum(one is not other for one, other in zip(after._shards, again._shards, strict=True)) == 1
    assert again == before
