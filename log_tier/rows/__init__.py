"""Rows: what is inside keys and values that have fields. Pure.

A key and a value are bytes to the log, the fold and the index. Here a key becomes a tuple of typed fields whose bytes
sort as the fields do, so a scan of a range of fields is a scan of a range of keys. A value becomes one record of Avro
behind the number of its schema. A table's definition says which of both it has, and it is in the log before the records
that need it.

What holds:

- W1 Two tuples are in the same order as their keys, where fields at one place are of one type.
- W2 A tuple has one key, and a key is of one tuple: `unpack_key` refuses what `pack_key` does not make.
- W3 The keys that begin with the same fields are neighbours, and no other key lies between them.
- W4 Elements that FoundationDB's tuple layer has are encoded as there (its `design/tuple.md`), so its clients in other
     languages read and make such keys. Dates and times have codes that it leaves to users.
- W5 A schema has one canonical form, which is a schema with the same canonical form. It keeps what readers need:
     logical types, defaults, aliases.
- W6 Whether a key and a value fit is decided by their bytes and the definition alone, in time linear in the bytes.
- W7 A definition is valid from its constructor on: the fields of its key are fields of each of its schemas, and sort.
- W8 Entries of an index are in the order of its fields, then of the keys; a row has one in each index, and nothing but
     its bytes and the definition decides which.

What is not here: which table has which definition from which offset on (the catalog and the fold), and Python types of
a caller (`duramen`).

Reading order: `elements.py`, `tuple_key.py`; `avro/`, `schema.py`; `key_fields.py`, `key_readers.py`, `framing.py`;
`table_index.py`, `quick_reader.py`, `index_entries.py`, `text_index.py`; `judge.py`; `definition.py`, `definitions/`
(checks of them, and the cluster's numbers of schemas), `table_spec.py` (a table that is to be made); `json_rows/` (what
endpoints without types speak); `finding/`; `columns/` (Arrow, both ways); `evolution.py`, `alter_table.py` (a change of
a schema); `patches/` (changes of fields).
"""
