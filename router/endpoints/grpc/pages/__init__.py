"""`duramen.v1.Console`: what the pages of the console show of a table's content.

The data plane's own methods give whole values, which have up to 4 MiB, and streams. A page shows some rows, the
beginning of each value, and how long it is.

    Get ──▶ one_key.py ──▶ Connection.read ──▶ one key, with its place, as a row, and its versions
    Scan ─▶ entries.py ──▶ Connection.scan ──▶ one page, which holds `PAGE_BYTES` of the data plane at most
    Find ─▶ found_rows.py ▶ kv/finds.py   ──▶ rows by the key or an index, until one more than the page is found
    Records ▶ log_records.py ──▶ Log.read  ──▶ records of one partition as they lie in the log, decoded

Promises:

- V1 A reply has at most `ENTRIES_MAX` entries, each with at most `VALUE_BYTES_MAX` of its value: 32 MiB at the worst,
     and where nobody asks for more, 500 KiB. A value that is cut says how long it is.
- V2 `Get`, `Scan` and `Find` answer from a state that holds what was written before, unless `eventual` is asked for:
     who looks has often just written. Where the log does not answer, that fails and `eventual` does not.
- V3 `Records` shows the log as it is: also what changed nothing, what was rejected, and where there is nothing. It
     reads what it shows, and to begin at a time some log2(offsets) batches more.
- V4 `Find` shows rows as JSON by the newest schema, since a person asks for them by their fields. It holds one page of
     the index, within what the server's streams may hold, and looks at rows until its deadline.

What is not here: verdicts on records (`duramen.v1.Admin/Explain` has them for one key), and writes.

Reading order: `entries.py`, `one_key.py`, `found_rows.py`, `log_records.py`, `console_service.py`.
"""
