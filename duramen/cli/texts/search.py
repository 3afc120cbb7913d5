"""`duramen search`: rows by the words of their texts."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from duramen.cli.data.table_text import text_of
from duramen.cli.terminal.options import AT_DEFAULT, After, At, Json, Level, MaxLag, Timeout, level_of
from duramen.cli.terminal.output import say, say_json
from log_tier.model.errors import InvalidRequest

__all__ = ["search"]


def search(
    table: Annotated[str, typer.Argument(help="A table of rows with a text index.", show_default=False)],
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Words, phrases, fields, AND, OR, NOT.", show_default=False)
    ],
    index: Annotated[
        str | None, typer.Option("--index", metavar="NAME", help="The text index, of a table with several.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 10,
    after: After = None,
    level: Level = None,
    max_lag: MaxLag = None,
    at: At = AT_DEFAULT,
    timeout: Timeout = 10.0,
    json: Json = False,
) -> None:
    """Find rows by the words of their texts, the best first, as JSON, one a line, each behind its score.

    The table needs a text index (`duramen table index create --kind text`). Words alone are joined by OR. With --json
    each line has the highlights too: by field a piece of its text, and where the query's words are in it.

    \b
      duramen search departures 'delayed AND newark'
      duramen search departures 'remark:"gate change" -cancelled' --limit 3
      duramen search departures fog --after "$TOKEN" --json
    """
    from duramen.cli.terminal.connection import connected
    from duramen.client.rows.texts.row_searches import text_named
    from router.data.requests import TextSearch

    asked = level_of(level, max_lag, after)
    with connected(at, timeout) as database:
        definition = database.definition(table)
        if definition is None:
            raise InvalidRequest(f"the values of {table} are bytes: rows alone are searched; use scan")
        named = text_named(definition, index)
        stored = database.table(table)
        wanted = TextSearch(named.name, query, named.number)
        searching = partial(stored.asynchronous.search_page, wanted, limit, after=after, level=asked, timeout=timeout)
        page = stored.loop.run(searching)
        text = text_of(database, table)
        for value, score, pieces in zip(page.values, page.scores, page.highlights, strict=True):
            if json:
                highlights = {each.field: {"text": each.text, "spans": each.spans} for each in pieces}
                say_json({"score": score, "value": text.json_value(value), "highlights": highlights})
            else:
                say(f"{score:.3f}  {text.value(value, lines=False)}")
