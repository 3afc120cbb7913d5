"""The tree of errors: every class is drawn, has a name of its own, and survives a wire and a pickle."""

from __future__ import annotations

import importlib
import pickle
import re
import traceback

import pytest

from log_tier.model import errors
from log_tier.model.errors import ERRORS, DuramenError, InvalidRequest, error_from_code


@pytest.mark.parametrize("kind", ERRORS.values(), ids=list(ERRORS))
def test_an_error_survives_a_wire_and_a_pickle(kind: type[DuramenError]) -> None:
    error = kind("what happened", offset=7, file="x")
    for copy in (error_from_code(kind.code, error.message, error.fields), pickle.loads(pickle.dumps(error))):
        assert type(copy) is kind
        assert (copy.message, dict(copy.fields), str(copy)) == (error.message, {"offset": 7, "file": "x"}, str(error))


@pytest.mark.parametrize("kind", ERRORS.values(), ids=list(ERRORS))
def test_an_error_has_one_name(kind: type[DuramenError]) -> None:
    """Tracebacks, pickles and Spark's reports name the package, whichever file defines the class."""
    (line,) = traceback.format_exception_only(kind("what happened"))
    assert line == f"log_tier.model.errors.{kind.__name__}: what happened\n"
    assert getattr(importlib.import_module(kind.__module__), kind.__name__) is kind


def test_a_subclass_elsewhere_does_not_take_its_parents_code() -> None:
    class Elsewhere(InvalidRequest):
        pass

    assert Elsewhere.__module__ == __name__
    assert ERRORS[InvalidRequest.code] is InvalidRequest


def test_an_unknown_code_becomes_the_root() -> None:
    error = error_from_code("from_the_future", "text", {"a": 1})
    assert type(error) is DuramenError
    assert error.fields == {"a": 1}


def test_the_drawing_is_the_tree() -> None:
    drawn: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.match(r"    ([│├└─ ]*)(\w+)", line)
        if found and found[2][0].isupper() and line.startswith("    ") and hasattr(errors, found[2]):
            drawn.append((len(found[1]) // 4, found[2]))
    parents: list[str] = []
    for depth, name in drawn:
        kind = getattr(errors, name)
        del parents[depth:]
        if depth:
            assert parents[-1] in {base.__name__ for base in kind.__bases__}, f"{name} hangs below {parents[-1]}"
        parents.append(name)
    assert {name for _, name in drawn} == {kind.__name__ for kind in ERRORS.values()}
    assert set(errors.__all__) >= {name for _, name in drawn}


def test_an_error_as_a_value_holds_no_frames() -> None:
    try:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise InvalidRequest("second", offset=7) from first
    except InvalidRequest as error:
        value = error.as_value()
    assert (value.__traceback__, value.__context__, value.__cause__) == (None, None, None)
    assert (type(value), value.message, value.fields) == (InvalidRequest, "second", {"offset": 7})


def test_only_transient_errors_are_retryable() -> None:
    for kind in ERRORS.values():
        assert not kind.retryable or kind.fault == "transient", kind


def test_codes_are_words() -> None:
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in ERRORS)
    assert len(set(ERRORS.values())) == len(ERRORS)
