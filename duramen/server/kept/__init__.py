"""What outlives a server: its history, as rows of the system table `_duramen_history`.

    ServerHistory ──▶ HistoryTable ──▶ one row for each step of the week, into the table's log
      (memory)   ◀──   (each step)  ◀── at the start: the rows of the last week of this server, or of its cluster

What holds:

- K1 A server writes one row for each step of its week: each minute up to 200 partitions, less often with more
     (`GRAINS`). A row has at most `ROW_PARTITIONS_MAX` partitions. Rows go after a week.
- K2 The history in memory needs none of this. What cannot be written or read is said once in the log, shown by
     `/history`, and tried again; memory holds what waits, and so it is bounded by the same numbers.
- K3 Servers write to the table's log themselves. No endpoint takes a write to it, with or without users, and no verb of
     administration changes what it holds.
- K4 A row is of one series: a node's own, or that of the routers, which are alike and share one: what one of them wrote
     while another was down, the other shows.
- K5 A row of another version is left out and counted.

Reading order: `history_sources.py`, `kept_state.py`, `row_format.py`, `history_table.py`.
"""
