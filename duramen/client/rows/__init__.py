"""Rows: tables whose keys and values are Python's, not bytes.

    db.create_table("flights", row=Flight, key=("carrier", "flight"))       RowTable[Flight]
    db.create_table("names", key=str, value=str)                            TypedTable[str, str]
    db.create_table("events", key={"day": date, "number": int}, value="json")

A table has a definition in the catalog: what its keys are, what its values are, and the schemas of its rows. A client
asks for it with its first call, and makes a **codec** of it and of the type that the caller gave. From there on a row
is a key and a value, and the call is one of the bytes table below, with its sessions, levels, tokens and errors.

    Flight ── prepare: do the fields fit? ── fastavro ──▶ 0, number of the schema, Avro   (the value)
                                          └─ pack_key ──▶ its key fields, which sort      (the key)

Invariants:

- R1 A row that does not fit is refused before anything leaves, with the field, its value and the type it should have.
     The fold refuses such rows of others: what is read here was judged.
- R2 What is put is what is got: equal, and of the same types; aware times come back in UTC, and 1 for a float as 1.0.
- R3 The key is made of what the row stores, so it is the key that the fold finds in the row.
- R4 A type that is not the table's is refused by the field, before the first row is read or written.
- R5 A codec belongs to a table's id. A table that was dropped and made again has another definition, and gets another
  codec.
- R6 A row of a schema that came later is read after one look at the table's definition, which concurrent callers
  share. A type goes on with the newest schema that it fits, if the table has none that is its own.
- R7 Importing `duramen` imports no fastavro and no pyarrow; the first row does the first, an Arrow schema the second.

What is not here: whether a record of the log fits, and which schema may follow another one (`log_tier.rows`).

The tables themselves are next to the table of bytes: `RowTable` and `TypedTable` of `duramen.client`.

Reading order: `shapes/` (what is given as `row=`), `plans/` (does a value fit, and what becomes of it),
`avro_schemas.py`, `row_key.py`, `schema_difference.py`, `row_codec.py`, `value_codecs.py` (str, bytes, JSON, tuples),
`encoded_rows.py` (many, by their places), `arrow/` (frames, both ways), `asked_definition.py` (from a call's arguments
to a definition), `opened.py` (a table's codec, by its id), `row_results.py`, `row_patches.py` (updates of fields),
`opened_rows.py` (what the halves of a table ask of it), `row_finds.py`, `row_indexes.py`, `texts/` (searches),
`altering.py` (another schema), `html_table.py` (for notebooks).
"""
