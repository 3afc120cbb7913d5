"""Every parser holds under changed samples: 200,000 inputs in each run of the suite, 50 MB each in the campaign."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
from kit.deadlines import patience_s

from fuzz.changes import changed_sample
from fuzz.endpoint_targets import close_endpoints
from fuzz.growth import GROWN_BYTES, grown, varint
from fuzz.run import GROWN_FROM, Range, fuzz, fuzz_apart, input_of, numbers_of
from fuzz.target import Target
from fuzz.targets import all_targets
from log_tier.model.errors import InvalidToken


@pytest.fixture(scope="module", autouse=True)
def endpoints() -> Iterator[None]:
    """The database of the targets that need one ends with them."""
    yield
    close_endpoints()


ROOT = Path(__file__).parents[2]
FULL = os.environ.get("DURAMEN_CAMPAIGN") == "1"
INPUTS_OF_A_CHANGE = 200_000
QUICK_INPUT_SECONDS_MAX = 20.0
"""A busy machine makes any input take a second, also of processor time: short of memory, the kernel works in it."""
BYTES_IN_A_CAMPAIGN = 50_000_000
SECONDS_IN_A_CAMPAIGN = 3600
"""A parser takes seconds of a processor; a busy machine gives it few of them."""
LONG_INPUTS_OF_A_CHANGE = 20


@pytest.mark.campaign
@pytest.mark.timeout(SECONDS_IN_A_CAMPAIGN if FULL else 600)
@pytest.mark.parametrize("name", all_targets())
def test_a_parser_holds(name: str, record_property: Callable[[str, object], None]) -> None:
    target = all_targets()[name]
    quick = Range(inputs_max=target.quick_inputs, input_seconds_max=QUICK_INPUT_SECONDS_MAX)
    outcome = fuzz_apart(name, Range(bytes_max=BYTES_IN_A_CAMPAIGN)) if FULL else fuzz(target, quick)
    findings = outcome.findings
    if not FULL:
        findings += fuzz(target, replace(quick, first=GROWN_FROM, inputs_max=LONG_INPUTS_OF_A_CHANGE)).findings
    again = f"again: python -m tests.fuzz --target {name!r} --inputs 1 --show --first"
    assert not findings, "\n".join(f"{each.words}\n{again} {each.number}" for each in findings)
    assert outcome.inputs, "nothing was read"
    assert not FULL or outcome.bytes >= BYTES_IN_A_CAMPAIGN, f"{outcome.bytes} bytes are fewer than promised"
    record_property("fuzzed bytes", outcome.bytes)
    record_property("fuzzed inputs", outcome.inputs)


def test_so_many_inputs_are_read_for_each_change() -> None:
    assert sum(target.quick_inputs for target in all_targets().values()) >= INPUTS_OF_A_CHANGE


def _careless(data: bytes) -> None:
    if data[:1] == b"!":
        raise KeyError(data[0])
    if data[:1] == b"?":
        raise InvalidToken("no")


def test_an_error_that_is_no_refusal_is_a_finding() -> None:
    wrong = Target("wrong", lambda: [b"fine"], _careless, change=lambda samples, chance: chance.choice((b"!", b"?")))
    outcome = fuzz(wrong, Range(inputs_max=40))
    assert outcome.findings
    assert all("KeyError" in finding.words for finding in outcome.findings)
    assert {input_of(wrong, 0, finding.number) for finding in outcome.findings} == {b"!"}
    assert outcome.refused


def test_what_takes_long_is_a_finding() -> None:
    def slow(data: bytes) -> None:
        if len(data) > 4:
            sum(range(2_000_000))

    target = Target("slow", lambda: [b"one"], slow, change=lambda samples, chance: b"longer")
    outcome = fuzz(target, Range(inputs_max=1, input_seconds_max=0.01))
    assert "ms of processor time" in outcome.findings[0].words


def test_a_target_of_which_no_sample_is_accepted_is_refused() -> None:
    with pytest.raises(AssertionError, match="no sample of careless"):
        fuzz(Target("careless", lambda: [b"?"], _careless), Range(inputs_max=1))


def test_a_process_that_ends_without_a_word_is_a_finding() -> None:
    """Its inputs are those of a target that is not there: the process fails before it says anything."""
    outcome = fuzz_apart("nothing of this name", Range(inputs_max=1))
    assert "said nothing" in outcome.findings[0].words


def test_an_input_is_a_number() -> None:
    target = all_targets()["token, sealed"]
    assert input_of(target, 1, 5) == input_of(target, 1, 5) != input_of(target, 1, 6)
    inputs = {changed_sample([b"sample"], random.Random(number)) for number in range(200)}
    assert len(inputs) > 150


def test_long_inputs_are_behind_the_small_ones() -> None:
    target = Target("some", lambda: [b"[1,2]"], bytes, quick_inputs=2)
    assert list(islice(numbers_of(target, 0), 6)) == [0, 1, 2, 3, GROWN_FROM, GROWN_FROM + 1]
    assert list(islice(numbers_of(target, 7), 2)) == [7, 8]
    assert list(islice(numbers_of(target, GROWN_FROM + 7), 2)) == [GROWN_FROM + 7, GROWN_FROM + 8]
    sizes = [len(input_of(target, 0, GROWN_FROM + number)) for number in range(300)]
    assert sum(size >= GROWN_BYTES[0] // 2 for size in sizes) > 250, "most inputs are long"
    assert max(sizes) <= GROWN_BYTES[1] + GROWN_BYTES[0]


def test_some_long_inputs_are_what_their_format_says() -> None:
    """Lists, texts and lengths: a parser reads them to their end."""

    def same(samples: Sequence[bytes], _: random.Random) -> bytes:
        return samples[0]

    def whole(data: bytes) -> bool:
        return len(data) > 1 + GROWN_BYTES[0] and data[0] > 127 and data.startswith(varint(len(data) - 2))

    made = [grown(same, [b'{"a": ["b"]}'], random.Random(number)) for number in range(300)]
    assert sum(_is_json(each) for each in made if len(each) > GROWN_BYTES[0]) > 30
    made = [grown(same, [b"\x08abcdefgh"], random.Random(number)) for number in range(600)]
    assert any(map(whole, made)), "a length before it covers what was put in"


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def test_the_command_reads_an_input_again() -> None:
    run = subprocess.run(
        [*(sys.executable, "-m", "tests.fuzz", "--target", "token", "--first", "3", "--inputs", "1", "--show")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience_s(60),
        check=True,
    )
    assert repr(input_of(all_targets()["token"], 0, 3)) in run.stdout
    assert "1 targets" in run.stdout
    assert "0 broken" in run.stdout
