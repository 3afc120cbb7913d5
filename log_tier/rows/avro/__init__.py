"""Apache Avro: types as they are normalised, and a strict reader of binary values. Pure.

A schema becomes a tree of closures, once. Each takes the bytes and a place in them, and returns the place behind a
value of its type, or raises `Misfit`. No value is built.

What holds:

- Y1 Bytes that a reader accepts are decoded by every reader of Avro that keeps to its specification, to one value.
- Y2 The time is linear in the bytes and the memory is constant, whatever the bytes claim. A call of a closure takes at
     least one byte, or is one of at most 64 around one that does: types without bytes have no closure, and an array
     with more items than there are bytes left is refused before its first one.
- Y3 Values are nested at most 64 deep, counted in records, arrays and maps; and a row has at most 65,536 of them inside
     arrays, maps and nested records, of whatever size. So one row, the least that a replica folds, has a bounded time.
- Y4 A normalised type is right in itself: names are defined before they are used, defaults and logical types fit, and
     a value of it can have an end.

It is stricter than libraries where they differ from each other: a varint has at most 10 bytes (5 for an int, an enum,
a union), a block of a negative count has the size that it says, a decimal has no more digits than its precision, dates
and timestamps are in the years 1 to 9999, times within a day, a uuid has its 36 characters (decision 85).

What is not here: schemas by their canonical form, keys, numbers of schemas (`log_tier.rows`).

Reading order: `logical_types.py`, `varints.py`, `row_room.py`, `plain_readers.py`, `writing.py`, `defaults.py`,
`avro_types.py`, `row_reader.py`, `sure_room.py`.
"""
