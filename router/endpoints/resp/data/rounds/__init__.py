"""Rounds: commands that read and write, one after the other on what is there, many in one commit.

A pipeline is a program: its commands run in their order, each on what those before it have left, and none of them waits
for the disk; their replies do. Each partition has an **executor**, which queues the commands of all connections, each
connection's in its order. A round takes what is queued, reads the keys of all of it in one transaction, runs it on an
`Overlay`, and writes what changed:

    round   claim, read keys ──▶ run ──▶ groups ──▶ one batch ──▶ verdicts ──▶ replies
                ▲                                                    │
                └────────── those whose group was rejected ◀─────────┘

What holds:

- C1 An executor runs a connection's commands in their order: a command is in no round before one that came earlier,
     and a group (`queued_commands.py`) takes effect with all of the connection's commands of its round, or with none.
- C2 A reply leaves when its group is on stable storage and its verdict is known: nobody is shown what could still be
     lost. The fold gives the verdict. Where nobody but this endpoint has written between the state that the round read
     and the group's place, the verdict is known at once (`router/endpoints/resp/data/shared_writer.py`), because of C4.
     What a round has changed is known to nobody but the round; others read the index, which follows the log.
- C3 What a command has read still holds where its group takes effect (I6): the log decides, every replica alike. Where
     another client wrote in between, at another server or over gRPC, the whole group runs again, reads included.
     A reply that says what a key has not (`Overlay.put_over`: another version) is judged with them where the state that
     was read does not prove it, also if the group writes nothing. What depends on an offset that the log has not given
     yet (`Undecided`) runs in the next round, with all that its connection sent behind it.
- C4 This server does not reject itself. While a round is under way its keys are **claimed**: a plain write to one of
     them goes to the executor's queue. And a round reads when no write to its keys is under way
     (`SharedWriter.settled`).

After a rejection the next round takes half as many commands of each connection, down to one, so that a long pipeline
gets through even if another client writes the same keys all the time; each round that was granted doubles it again.

A pipeline comes as runs of some hundred commands, which are executed in columns where they are alike.

Fifty clients that increment one key are one group of fifty records and one sync; fifty keys of fifty clients are fifty
groups of one batch.

The executors of several partitions know nothing of each other: a pipeline's commands take effect in their order in each
partition, as if each were a Redis server of its own.

A command that waits for its round while its caller loses the right to it is refused in its place (`refusals.py`): the
round runs what fails in its stead.

Reading order: `refusals.py`, `queued_commands.py` (commands and their groups), `command_run.py` (many as one job),
`round_keys.py` (what a thread does of a large round), `partition_executor.py` (a round), `command_rounds.py` (the
executors of all partitions, and whose round is next).
"""
