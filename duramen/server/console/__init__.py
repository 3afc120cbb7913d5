"""The console: a server's last hour and week, its changes as they happen, and the page that shows both in a browser.

    ServerSight ──▶ HistoryKeeper ──▶ ServerHistory: an hour, a week ──▶ history_to_json() ──▶ GET /history
      (sight)      (looks, by time)      (values, pure)                       (pure)
                         │
                         └──▶ Look ──▶ night_document() ──▶ StatusEvents ──▶ GET /events ──▶ the page: GET /
                                       (pure)              (one for all streams)           (files/, in the browser)

    the page ──▶ POST /console/call ──▶ calls/ ──▶ a method of this server's gRPC services, behind their guard

What holds:

- C1 One look at the server is for everybody: fifty pages that are open cost one look a second. While there is none, at
     most 200 partitions are looked at in a second.
- C2 Memory is bounded by `GRAINS`, whatever the number of partitions: the more there are, the longer are the steps.
     Up to 200 partitions it is an hour at one second and a week at one minute.
- C3 What was not observed is a gap: `null`, never a zero, and no rate spans it.
- C4 Times inside are seconds since the server began. A wall clock that is set moves the whole history, and breaks none
     of it.
- C5 A stream ends when its caller may not see it any more: in the turn in which the map of the change comes, or when
     the token expires. What it shows are the tables that are shown to its caller at that time.
- C6 A stream holds no more for a slow client than one document and 64 KiB, and for a few seconds.
- C7 The page is files of this package: nothing is loaded from elsewhere, no text becomes HTML, and a browser is asked
     to see to both (`PAGE_HEADERS`).
- C8 The page never shows a number that it does not know, and says since when the server has not answered.
- C9 A router's page shows what each node says of itself. Nodes are asked while somebody watches, each with a deadline;
     one that does not answer is named, with the age of what it said last. Nothing of tables is in it.

- C10 What a page asks for beyond that, and what it changes, are calls of methods of gRPC (`calls/`): who may do what is
      decided there and nowhere else, and `POST` is answered to this server's own pages alone.

The page is a frame and pages. `files/pages.js` has one line for each page, and says what a page's module exports; the
part of the address behind `#` says which one is shown. A file in `files/` is served by being there.

A router's history is of what the nodes report to it, so it is the cluster's. What outlives the process is in
`duramen.server.kept`.

Reading order: `history_ring.py`, `history.py`, `history_answer.py`, `node_facts.py`, `node_watch.py`,
`look.py`, `history_keeper.py`, `night_document.py`, `status_events.py`, `verb_forms.py`,
`console_files.py`, `console.py`; then
`files/index.html` and, from `main.js` on, what that imports; `calls/` by its own essay.
"""
