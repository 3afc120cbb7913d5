"""Recording what a program asks of Duramen, and judging the answers by the log: the checker of `duramen check`.

Each client that is made in a recorded context gets objects of this package in front of its gatherers and its connection
(`duramen.client.transport.observer`). They change nothing; they note each call with its times and its reply. At the
end the log is read from its beginning, and each reply is held against it.

    I1  an acknowledged write is in the log at its offset, with its bytes
    I2  what is in the log was written by a call, once; what failed for sure is not there
    I3  the bytes at an offset are the same for every reader
    I4  every replica's content at an offset is the log's
    I5  no read is older than its token, its session, or (strong) what had been acknowledged before it began
    I6  verdicts and results are those of the log's order
    I7  a watch shows every change once, in order

What is not judged, and refused with `NotJudged`: numbers that are no integers of 64 bits. A watch is
recorded as its connection gives it, before the client makes changes of it. Of a writer of a stream (`table.writer`) I2
is judged and I1 is not: a batch that an earlier run has written is acknowledged at the place of its second copy.

Reading order: `operations.py` (records as the history has them), `table_recorder.py`, `recorded_ways.py`,
`call_recorder.py`, `evidence.py`, `judging.py`.
"""
