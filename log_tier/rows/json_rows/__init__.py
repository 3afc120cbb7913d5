"""Rows and keys as plain JSON, for endpoints and pages that have no types of the schema. Pure.

What holds:

- J1 JSON that is printed is parsed to the same row, and the same key, by the schema that printed it.
- J2 JSON that does not fit is refused with the field, its value and the type that the field has; nothing is guessed.
- J3 A row of any schema of its table is printed with the fields and defaults of the newest one.

What is not here: which endpoint takes which JSON (`duramen.cli`, `router.endpoints`), and Avro's own JSON encoding,
which names the branch of each union.

Reading order: `strict_json.py`, `json_leaves.py`, `read_as.py` (rows of earlier schemas), `json_form.py`,
`json_keys.py`, `json_patches.py`, `json_table.py`.
"""
