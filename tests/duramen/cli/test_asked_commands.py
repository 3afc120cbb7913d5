"""The one command that a command line begins with is built as it is among all of them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import typer
from kit.client.command_line import run_here

import duramen
from duramen.cli.app import whole_app
from duramen.cli.terminal.asked_commands import asked_commands, name_of
from duramen.cli.terminal.tls_options import with_tls_options

app = whole_app()


def paths(group: typer.Typer, *above: str) -> Iterator[tuple[str, ...]]:
    for command in group.registered_commands:
        yield (*above, name_of(command))
    for each in group.registered_groups:
        assert each.typer_instance is not None
        yield (*above, str(each.name))
        yield from paths(each.typer_instance, *above, str(each.name))


def help_of(root: Any, path: tuple[str, ...]) -> str:
    context = typer.Context(root, info_name="duramen")
    for name in path:
        root = root.get_command(context, name)
        context = typer.Context(root, info_name=name, parent=context)
    return str(root.get_help(context))


def test_each_command_is_what_it_is_among_all() -> None:
    whole, known = typer.main.get_command(app), list(paths(app))
    assert len(known) > 80
    for path in known:
        asked = typer.main.get_command(asked_commands(app, [*path, "flights", "--json"]))
        assert help_of(asked, path) == help_of(whole, path), path
    assert list(paths(app)) == known, "the app is not changed"


def test_nothing_else_is_built() -> None:
    assert list(paths(asked_commands(app, ["get", "flights", "put"]))) == [("get",)]
    assert list(paths(asked_commands(app, ["admin", "nodes", "get"]))) == [("admin",), ("admin", "nodes")]


@pytest.mark.parametrize("arguments", [[], ["--help"], ["gett"], ["--token-file", "f", "get"]], ids=str)
def test_what_begins_with_no_command_may_mean_any(arguments: list[str]) -> None:
    assert asked_commands(app, arguments) is app


def test_a_mistake_within_a_group_is_compared_with_all_of_it() -> None:
    done = run_here("admin", "node")
    assert done.returncode == 2
    assert "Did you mean" in done.stderr
    assert "'nodes'" in done.stderr


def test_the_end_of_a_command_looks_for_no_garbage() -> None:
    """The interpreter would look through all that was imported, which takes longer than `--help` does."""
    code = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 10_000, len(gc.get_objects())))\n"
        "from duramen.cli import main\nsys.argv = ['duramen', '--help']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    frozen, others = done.stdout.splitlines()[-1].split()
    assert frozen == "True", done.stdout
    assert int(others) < 1_000


def test_the_version_is_said_without_a_command() -> None:
    code = (
        "import atexit, sys\natexit.register(lambda: print(*sys.modules))\n"
        "from duramen.cli import main\nsys.argv = ['duramen', '--version']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    version, loaded = done.stdout.splitlines()
    assert version == f"duramen {duramen.__version__}"
    assert {name.split(".")[2] for name in loaded.split() if name.startswith("duramen.cli.")} == {
        "app",
        "grpc_core",
        "terminal",
    }


def test_a_command_is_not_late_for_what_it_does_not_need() -> None:
    """Each of these takes a tenth of a second or more before the first line of a command runs."""
    code = (
        "import sys\nfrom duramen.cli import main\n"
        "sys.argv = ['duramen', 'get', '--at', '127.0.0.1:1', '--timeout', '0.01', 'flights', 'k']\n"
        "try:\n    main()\nfinally:\n    print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    loaded = set(done.stdout.split())
    assert "duramen.client.database" in loaded, done.stderr
    assert not loaded & {"pydantic", "pyarrow", "cryptography", "rich", "fsspec", "fastavro", "email", "html"}


def test_a_command_may_be_made_twice() -> None:
    """By two threads at once, or again after its making was interrupted: its functions are of modules, and stay."""
    group = import_module("duramen.cli.data.tables").app
    for _ in range(2):
        made: Any = typer.main.get_command(with_tls_options(group))
        options = Counter(each.name for each in made.commands["list"].params)
        assert options["tls_ca"] == options["at"] == 1, options
