"""Commands that show what a server knows about itself: `status`, once in three lines; `top`, again and again as a page;
`slow`, the calls that took long.

    Cluster/Status ──▶ StatusClient ──▶ one document ──▶ StatusHistory ──▶ night_page() ──▶ lines ──▶ terminal
                     (the seam: gRPC)                   (figures of two or more)  (pure)
    Cluster/SlowCalls ──▶ StatusClient ──▶ one document ──▶ slow_page() ──▶ lines

What holds:

- A page is a function of the documents, of the time at which each arrived, and of the size of the terminal.
- The most urgent stands first, and no terminal is too small for the first trouble and what to do about it. Partitions
  without room are counted, never left out in silence.
- A rate is the difference of two documents of the same process. A server that was started again begins anew: no figure
  is negative, or spans the restart.
- What a server does not know is left away. A server that does not answer is named with its error and the age of what is
  still shown.
- Names and reasons stay text: a control character in one never reaches the terminal.

`StatusHistory` is the server's, which shows the same figures in its console (`duramen.server.sight`).

What is not here: history beyond ten minutes, and facts that no server has.

Reading order: `status.py`, `night_page.py`, `top.py`, `slow_page.py`, `slow.py`.
"""
