"""Patches: changes of some fields of a row, decided where they lie in the log. Pure.

    update("UA", 1545, set={"gate": "B7"}, add={"seats": -1})

A patch is the value of a record with the operation PATCH. It has the number of the schema that its writer knows, and
for each field what is done to it. The fold finds the row, changes it, and stores the whole row again, so readers,
snapshots and watches of the present see rows and nothing else.

    row ── of the patch's schema, or made one of it if that is newer ──┐
    patch ── of the row's schema, or made one of it if that is newer ──┴─▶ fields changed ─▶ judged as a row ─▶ stored

What holds:

- P1 What a patch makes of a row is decided by the bytes of both and the definition alone: no library, no processor. So
     replicas cannot part. NaN has one form, and numbers are never wrapped: what is beyond its type is refused.
- P2 Whether a record is a patch of its table is decided by its bytes and the definition: schema, fields, operations and
     operands are judged before there is a row. What is none is void.
- P3 A patched row is of the newer one of both schemas, and is judged as every row is.
- P4 The fields of the key stay as they are, and so does each field that the patch does not name: its bytes are copied.
- P5 The time is linear in the bytes of the row, the patch and the result, which has at most 4 MiB.
- P6 The number of the operation is the version of the format. Another form of patches gets another number, so a process
     that does not know it stops in front of it.

What each operation does:

    set       any field: the operand is its new value
    add       int, long, float, double, decimal: the sum
    multiply  the same: the product. Of decimals it is rounded to the scale, half to even
    min, max  the same, dates and times: the smaller, the larger. -0.0 is below 0.0; NaN with anything is NaN
    append    string, bytes, array: the operand behind it

Of an optional field that is null `min`, `max` and `append` make the operand, as of a key that is absent; `add` and
`multiply` are refused, since null is no number. A sum or product of finite numbers that is not finite is refused.

What is not here: whether there is a row, conditions and expiry (`serving_tier.fold`), and values of Python or JSON
(`duramen`, `json_rows`).

Reading order: `hindrance.py`, `row_patch.py` (the format), `field_paths.py` (which fields, and what may be done to
them), `leaf_changes.py` (numbers and appends), `body_changes.py` (a row's bytes), `resolution.py` (a row of one schema
as one of another), `row_patcher.py` (all of it, for a definition).
"""
