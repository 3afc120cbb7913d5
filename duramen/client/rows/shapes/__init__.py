"""What a caller gives as `row=`, as a schema of Avro, and the Python types that its rows are made of.

    a dataclass, a pydantic model     rows are its instances; the schema follows from the annotations
    a schema of Avro, JSON or parsed  rows are dicts
    a `pyarrow.Schema`                rows are dicts; the schema is its equivalent in Avro

What holds:

- A type is refused where it is given, by the field and with what to write instead, never when the first row comes.
- A Python type has one type of Avro: `int` is `long`, `float` is `double`, `X | None` is a union with null.
- A default becomes the schema's where it is a value. What a factory makes anew for each row is none, but an empty list
  and an empty dict are.
- Pydantic is not imported for dataclasses, and pyarrow not for what is no Arrow.

What is not here: whether a value fits (`duramen.client.rows.plans`), and which schema a table has.

Reading order: `marks.py` (what annotations say further), `hints.py` (an annotation as one value), `row_class.py`
(classes), `avro_default.py`, `class_schema.py` (to Avro), `arrow_schema.py` (from Arrow), `shape.py` (which of them it
is), `renamed.py` (the next schema of a table keeps the name of its record).
"""
