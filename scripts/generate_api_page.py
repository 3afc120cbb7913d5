"""Print `docs/API.md`: the Python API, from signatures and docstrings. Every public name must have a docstring."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

import duramen
from duramen import aio, blocking, testing
from duramen.client import atomic, database, row_table, row_writes, table, table_writer, typed_table
from duramen.client.model import results
from duramen.client.rows import row_results
from duramen.client.watch import Watch
from log_tier.model.errors import DuramenError
from log_tier.model.retention import Retention
from log_tier.rpc.status_codes import status_of
from router.data.requests import PartitionDescription, TableDescription

__all__ = ["api_page"]

_INTRODUCTION: Final = """# Python API

Generated from the docstrings by `make docs`. [START](START.md) is the introduction.

There are two faces with the same names, arguments, results and errors:

- **blocking**: `duramen.connect`, `duramen.open`. Calls may come from any number of threads; concurrent calls share
  requests.
- **asyncio**: `await duramen.aio.connect(…)`, `await duramen.aio.open(…)`. Methods marked *await* are coroutines there;
  `scan` and `watch` are asynchronous iterators. A database belongs to the event loop in which it was made.

Keys are 1 to 511 bytes, values up to 4 MiB. `timeout` is in seconds and covers the whole call; `None` is the default of
the connection (10 s). A call that can take part of its time waiting raises `DeadlineExceeded` or `WriteUnknown` at its
end. Any call that needs a server can raise `Disconnected`, `Overloaded`, `ShuttingDown` and `DatabaseClosed`; a
method's own errors are listed with it, and all of them in [Errors](#errors)."""

_PAIRS: Final[tuple[tuple[str, type, type], ...]] = (
    ("Database", database.Database, blocking.Database),
    ("Table", table.Table, blocking.Table),
    ("AtomicBatch", atomic.AtomicBatch, blocking.AtomicBatch),
    ("TableWriter", table_writer.TableWriter, blocking.TableWriter),
    ("RowTable", row_table.RowTable, blocking.RowTable),
    ("AtomicRows", row_writes.AtomicRows, blocking.AtomicRows),
    ("RowWriter", row_writes.RowWriter, blocking.RowWriter),
    ("TypedTable", typed_table.TypedTable, blocking.TypedTable),
)
"""Name, asynchronous class, blocking class."""

_RESULTS: Final[tuple[type, ...]] = (
    results.Entry,
    results.Done,
    results.ManyDone,
    results.Change,
    row_results.TypedEntry,
    row_results.TypedChange,
    results.KeyVersion,
    results.KeyDifference,
    results.TableInfo,
    TableDescription,
    PartitionDescription,
    Retention,
    duramen.Token,
    duramen.ScanBounds,
)

_TESTING: Final[tuple[type, ...]] = (
    testing.Cluster,
    testing.ClusterFaults,
    testing.Program,
    testing.AsyncEmbedded,
    testing.Embedded,
    testing.Server,
    testing.DiskFaults,
)

_MADE_BY_TESTS: Final = (testing.Cluster, testing.AsyncEmbedded, testing.Embedded, testing.Server)

# Public to the package's other modules and to tests, and no part of what users call.
_INNER: Final = frozenset(
    {
        *("after_fork", "at", "connection", "deadline", "direct_reads", "found", "reads"),
        *("repeat", "scan_pages", "diff_pages", "timeout", "watch_runs", "change_runs", "writes"),
        *("asynchronous", "loop", "range_pairs"),
        *("end", "going_on", "joined", "unheard_failure"),
        *("patch", "write_record"),
    }
)
_SIGNATURE_MAX: Final = 110


def api_page() -> str:
    """The whole page, with a final line end."""
    parts = [_INTRODUCTION, _contents(), "## Connect and open"]
    for name in ("connect", "open"):
        parts += _function(f"duramen.{name}", getattr(duramen, name), awaited=f"duramen.aio.{name}")
        assert inspect.iscoroutinefunction(getattr(aio, name))
    for name, asynchronous, faced in _PAIRS:
        parts += [f"## {name}", _words(asynchronous)]
        for method in _methods(asynchronous, faced):
            parts += _method(name, method, asynchronous, faced)
    parts += ["## Watch", _words(Watch), "## Levels"]
    parts += _function("duramen.bounded", duramen.bounded)
    parts += ["## Types of rows", *_function("duramen.Digits", duramen.Digits)]
    parts += [
        "### duramen.NAIVE",
        "For a `datetime` of a row without a time zone: `Annotated[datetime, duramen.NAIVE]`.",
    ]
    parts += _function("duramen.OrderedIndex", duramen.OrderedIndex)
    parts.append("## Keys with fields")
    for name in ("pack_key", "key_range", "unpack_key"):
        parts += _function(f"duramen.{name}", getattr(duramen, name))
    parts.append("## Results")
    for kind in _RESULTS:
        parts += _result(kind)
    parts += _testing()
    parts += _errors()
    return "\n\n".join(parts) + "\n"


def _contents() -> str:
    lines = []
    for name, asynchronous, faced in _PAIRS:
        links = (f"[`{method}`](#{name.lower()}{method})" for method in _methods(asynchronous, faced))
        lines.append(f"- **{name}**: {', '.join(links)}")
    lines.append("- **[Types of rows](#types-of-rows)**: `duramen.Digits`, `NAIVE`, `OrderedIndex`")
    lines.append("- **[Keys with fields](#keys-with-fields)**: `duramen.pack_key`, `key_range`, `unpack_key`")
    lines.append(f"- **Results**: {', '.join(f'[`{kind.__name__}`](#{kind.__name__.lower()})' for kind in _RESULTS)}")
    lines.append("- **[Testing](#testing)**: `duramen.testing`, for tests of programs that use Duramen")
    return "\n".join([*lines, "- **[Errors](#errors)**: every class, its code, and what to do"])


def _methods(asynchronous: type, faced: type) -> list[str]:
    """What users call, in the order of the asynchronous face's source, then what only the blocking one declares."""
    names = [*vars(asynchronous), *(name for name in _declared(faced) if name not in vars(asynchronous))]
    # Class methods make instances for the library itself: programs call `connect` and `open`.
    names = [name for name in names if not isinstance(vars(asynchronous).get(name), classmethod)]
    return [name for name in names if not name.startswith("_") and name not in _INNER]


def _declared(kind: type) -> dict[str, Any]:
    """What a class and the halves that it is made of declare."""
    own = (each for each in reversed(kind.__mro__) if each.__module__.startswith("duramen."))
    return {name: member for each in own for name, member in vars(each).items()}


def _method(owner: str, name: str, asynchronous: type, faced: type) -> list[str]:
    of_both, of_faced = _declared(asynchronous), _declared(faced)
    shown: Any = of_faced.get(name, of_both.get(name))
    documented: Any = of_both.get(name, shown)
    if isinstance(shown, property):
        return [f"### {owner}.{name}", _words(shown.fget)]
    coroutine = inspect.iscoroutinefunction(documented)
    signature = _signature(name, shown, own=True, awaited=coroutine)
    if name not in of_faced:
        signature = signature.replace("*asyncio: await*", "*asyncio only: await*")
    return [f"### {owner}.{name}", signature, _words(documented)]


def _function(name: str, function: Callable[..., Any], *, awaited: str = "") -> list[str]:
    return [f"### {name}", _signature(name, function, own=False, awaited=bool(awaited)), _words(function)]


def _signature(name: str, function: Callable[..., Any], *, own: bool, awaited: bool) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if own else 0 :]
    plain = signature.replace(parameters=parameters)
    line = f"{name}{plain}".replace("'", "")
    line = re.sub(r"Literal\[(.*?)\]", lambda match: match[0], line)
    if len(line) > _SIGNATURE_MAX:
        head, _, result = line.rpartition(") -> ")
        opened = head.index("(")
        shown = "".join(f"    {each},\n" for each in _split(head[opened + 1 :]))
        line = f"{head[: opened + 1]}\n{shown}) -> {result}"
    mark = "\n\n*asyncio: await*" if awaited else ""
    return f"```python\n{line}\n```{mark}"


def _split(parameters: str) -> Iterator[str]:
    """Cut at commas outside brackets; `*` stays with what follows it."""
    depth, begun = 0, 0
    for place, sign in enumerate(parameters):
        depth += (sign in "[(") - (sign in "])")
        if sign == "," and depth == 0:
            yield parameters[begun:place].strip()
            begun = place + 1
    yield parameters[begun:].strip()


def _words(documented: Any) -> str:
    """A docstring as Markdown: what is indented becomes a code block."""
    text = inspect.getdoc(documented)
    assert text, f"{documented} has no docstring"
    found = []
    for paragraph in text.split("\n\n"):
        if all(line.startswith("    ") for line in paragraph.splitlines()):
            found.append(f"```python\n{inspect.cleandoc(paragraph)}\n```")
        else:
            found.append(paragraph)
    return "\n\n".join(found).replace("```\n\n```python", "")


def _result(kind: type) -> list[str]:
    """A result's fields with what its source says of each, and its properties."""
    found = [f"### {kind.__name__}", _words(kind)]
    rows = []
    source = inspect.getsource(kind)
    for name, declared in inspect.get_annotations(kind).items():
        annotation = getattr(declared, "__forward_arg__", declared)  # a NamedTuple wraps the text
        if not name.startswith("_"):
            said = re.search(rf'^    {name}: [^\n]*\n    """(.*?)"""', source, re.DOTALL | re.MULTILINE)
            rows.append(f"| `{name}` | `{_cell(str(annotation))}` | {_cell(said[1] if said else '')} |")
    for name, member in vars(kind).items():
        if isinstance(member, property):
            rows.append(f"| `{name}` | property | {_cell(_words(member.fget))} |")
        elif isinstance(member, classmethod) or (inspect.isfunction(member) and not name.startswith("_")):
            words = inspect.getdoc(member)
            if words and name not in vars(kind).get("_fields", ()) and member.__module__ == kind.__module__:
                rows.append(f"| `{name}()` | method | {_cell(words)} |")
    return [*found, "\n".join(["| field | type | meaning |", "|---|---|---|", *rows])]


def _testing() -> list[str]:
    """What tests of users' programs call."""
    found = [
        "## Testing",
        "`from duramen import testing`; [TESTING_YOUR_PROGRAM](TESTING_YOUR_PROGRAM.md) is the introduction, with the "
        "errors and the fixtures for pytest.",
    ]
    found += _function("testing.run", testing.run)
    found += _function("testing.simulated", testing.simulated)
    for kind in _TESTING:
        name = f"testing.{kind.__name__}"
        found += [f"### {name}", _words(kind)]
        if kind in _MADE_BY_TESTS:
            made: Any = vars(kind)["__init__"]
            found += [_signature(name, made, own=True, awaited=False), _words(made)]
        for method in _methods(kind, kind):
            found += _method(name, method, kind, kind)
    return found


def _errors() -> list[str]:
    """The tree, a row for each class; every class says what to do in its docstring, after `Do:`."""
    found = [
        "## Errors",
        "`duramen.NAME` is each class. `code` is its name on the wire and never changes; *retry* says whether the same "
        "call can succeed later; *fault* is the kind of its cause: the caller, a transient condition, the data, or the "
        "state of the machine. "
        "`error.fields` has the numbers behind the message. Catch a class and you catch those indented below it.",
    ]
    rows = ["| class | `code` | gRPC status | retry | fault | meaning | what to do |", "|---|---|---|---|---|---|---|"]
    for depth, kind in _tree(DuramenError, 0):
        words = inspect.cleandoc(kind.__doc__ or "")
        meaning, mark, advice = words.partition("Do: ")
        assert mark, f"{kind.__name__}: its docstring does not say what to do (a paragraph that begins with `Do: `)"
        name = f"{'&nbsp;&nbsp;' * depth}`{kind.__name__}`"
        retry = "yes" if kind.retryable else "no"
        cells = (name, f"`{kind.code}`", status_of(kind).name, retry, kind.fault, _cell(meaning), _cell(advice))
        rows.append(f"| {' | '.join(cells)} |")
    return [*found, "\n".join(rows)]


def _tree(kind: type[DuramenError], depth: int) -> Iterator[tuple[int, type[DuramenError]]]:
    yield depth, kind
    for child in kind.__subclasses__():
        yield from _tree(child, depth + 1)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(api_page())
