"""The group of commands `duramen log`."""

from __future__ import annotations

import typer

from duramen.cli.files.dump import dump
from duramen.cli.files.repair import repair
from duramen.cli.files.verify import verify

__all__ = ["app"]

app = typer.Typer(help="Look into the files of a log, and repair them.", no_args_is_help=True, rich_markup_mode=None)
app.command("dump")(dump)
app.command("verify")(verify)
app.command("repair")(repair)
