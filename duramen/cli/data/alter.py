"""`duramen table alter`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from duramen.cli.data.definition_text import schema_text
from duramen.cli.terminal.options import AT_DEFAULT, At, Json, Timeout
from duramen.cli.terminal.output import say, say_json

__all__ = ["alter"]


def alter(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name.")],
    schema: Annotated[
        Path, typer.Option("--schema", metavar="FILE", help="The next Avro schema of its rows (JSON); - is stdin.")
    ],
    compatibility: Annotated[
        str, typer.Option("--compatibility", metavar="MODE", help="backward, forward, full or none.")
    ] = "backward",
    if_definition: Annotated[
        int, typer.Option("--if-definition", metavar="N", min=0, help="Only where it has definition N; 0: any.")
    ] = 0,
    check: Annotated[bool, typer.Option("--check", help="Say whether it may follow, and change nothing.")] = False,
    at: At = AT_DEFAULT,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """Give the rows of a table another schema.

    Nothing is rewritten: rows that are there are read with the new schema's defaults. It may run while others write;
    programs with an earlier schema go on. The same schema again changes nothing, and waits for a change that is under
    way or takes up one that has failed.

    It is compared with every schema that the table has had. backward: who has the new one reads rows of the earlier
    ones. forward: who has an earlier one reads rows of the new one. full: both. none: neither. Fields of the key stay
    as they are.

    \b
      duramen table alter departures --schema departure-2.avsc --check
      duramen table alter departures --schema departure-2.avsc
      duramen table alter departures --schema departure-3.avsc --compatibility full
    """
    from duramen.cli.data.shown_definition import definition_document, definition_line
    from duramen.cli.terminal.connection import connected
    from log_tier.rows.alter_table import SchemaChange
    from log_tier.rows.evolution import check_mode
    from log_tier.rows.schema import RowSchema

    text, mode = schema_text(schema), check_mode(compatibility)
    with connected(at, timeout) as database:
        if check:
            present = database.definition(table)
            SchemaChange(RowSchema.parse(text), mode).check(present, table)
        else:
            database.alter_table(table, row=text, compatibility=mode, if_definition=if_definition)
        definition = database.definition(table)
    assert definition is not None, f"table {table} has rows"
    if json:
        say_json({"table": table, "altered": not check, "definition": definition_document(definition)})
    elif check:
        say(f"this schema may be the next one of {table}, which has {definition_line(definition)}")
    else:
        say(f"table {table} has {definition_line(definition)}")
