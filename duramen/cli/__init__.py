"""The command line: every command is a few lines over the client that everybody else uses.

What it promises:

- **One rule for bytes.** Keys and values are typed and shown as UTF-8 text. What is no printable text, or begins with
  `base64:` itself, is shown as `base64:…`; the same form may be typed. So what a command prints, another one takes.
- **One rule for scripts.** With `--json` a command prints one JSON object per line on the standard output, and its
  error as one on the standard error. Without it, an error is one line that begins with `error:` and says what to do.
- **One table of exit codes** (`terminal/exits.py`): 0 done, 1 error, 2 the command makes no sense, 3 not found, 4
  rejected by a condition, 5 a retry can help, 6 refused, 7 the data folder is in use, 130
  interrupted.

How a command passes through:

    main ──▶ app (typer: arguments) ──▶ a command ──▶ duramen.connect(--at) ──▶ Table.put / get / scan / …
      ▲                                                                              │
      └── exits.py: the error's class ──▶ exit code; output.py: the error's line ◀───┘

Starting quickly is a feature: nothing but typer and the module of the command is imported before it is needed. gRPC
comes with the first connection, types of rows with the first table that has some, rich with the first table or progress
bar, pyarrow with the first Parquet file. `tests/duramen/cli/test_command_imports.py` holds it by the names of modules.

What it deliberately does not do: keep a session between two commands (a token from one, `--after` in the next, does
that), ask questions where nobody is there to answer, or reach into the server's files; only `log dump` and `log
verify` read those, and change nothing.

Reading order: `app.py` (the list of commands), `grpc_core.py`, `terminal/` (what they share), `servers/`, `sight/`,
`files/`, `certs/`, `data/`, `past/`, `texts/`, `admin/`, `spark/`, `users/`.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

__all__ = ["main", "run"]

_GC_THRESHOLD: Final = 100_000
"""What is imported stays: some 50,000 objects for a command that calls a server, and none of them is garbage."""


def main() -> NoReturn:
    """The command `duramen`."""
    gc.set_threshold(_GC_THRESHOLD, 50, 50)
    code = run(sys.argv[1:])
    gc.freeze()  # or the interpreter looks through all of it twice more for garbage, a tenth of a second, and then ends
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code. What it has to say goes to the standard output and error."""
    from duramen.cli.app import run_app

    return run_app(list(arguments))
