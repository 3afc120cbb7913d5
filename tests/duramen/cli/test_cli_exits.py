"""Exit codes: every error class has one, and the help lists them all."""

from __future__ import annotations

import pytest

from duramen.cli.app import whole_app
from duramen.cli.terminal import exits
from duramen.cli.terminal.exits import exit_code_of
from duramen.loading import FileRefused, RowRefused
from log_tier.model import errors
from log_tier.model.errors import ERRORS, DuramenError, PortInUse

pytestmark = pytest.mark.embedded_log_only


@pytest.mark.parametrize("kind", ERRORS.values(), ids=ERRORS.keys())
def test_every_class_has_a_code(kind: type[DuramenError]) -> None:
    code = exit_code_of(kind("message"))
    assert 0 < code <= exits.IN_USE
    if kind.retryable:
        assert code == exits.RETRY


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.DuramenError("x"), 1),
        (errors.LogDamaged("x"), 1),
        (errors.TableExists("x"), 1),
        (FileRefused("x"), 1),
        (RowRefused("x"), 1),
        (PortInUse("x"), 1),
        (errors.InvalidKey("x"), 2),
        (errors.InvalidToken("x"), 2),
        (errors.TableNotFound("x"), 3),
        (errors.ConditionFailed("x"), 4),
        (errors.NotANumber("x"), 4),
        (errors.Disconnected("x"), 5),
        (errors.DiskFull("x"), 5),
        (errors.WriteUnknown("x"), 5),
        (errors.Unauthenticated("x"), 6),
        (errors.PermissionDenied("x"), 6),
        (errors.FolderInUse("x"), 7),
    ],
    ids=lambda value: value.code if isinstance(value, DuramenError) else str(value),
)
def test_the_table(error: DuramenError, code: int) -> None:
    assert exit_code_of(error) == code


def test_the_help_lists_every_code() -> None:
    listed = str(whole_app().info.help).partition("Exit codes:")[2].split()
    for code in (exits.OK, *exits.EXIT_CODES.values(), exits.NOT_FOUND, exits.INTERRUPTED):
        assert str(code) in listed
