"""Limits of one connection, one command and the whole endpoint, each with its reason."""

from __future__ import annotations

from typing import Final

from log_tier.model.batch import BATCH_RECORDS_MAX
from log_tier.model.record import VALUE_BYTES_MAX
from router.data.requests import READ_REPLY_BYTES_MAX

__all__ = [
    "ARGUMENTS_MAX",
    "AT_ONCE_BYTES_MAX",
    "AT_ONCE_KEYS_MAX",
    "AT_ONCE_WORDS_MAX",
    "BACKLOG_BYTES_MAX",
    "BULK_BYTES_MAX",
    "CHANNEL_BYTES_MAX",
    "CLIENTS_MEBIBYTES",
    "COMMAND_BYTES_MAX",
    "CONNECTIONS_MAX",
    "CURSORS_MAX",
    "INLINE_BYTES_MAX",
    "KEYS_BYTES_MAX",
    "KEYS_REPLY_MAX",
    "LISTEN_BACKLOG",
    "MGET_BYTES_MAX",
    "OUTPUT_BYTES_MAX",
    "OUTPUT_PAUSE_BYTES",
    "OUTPUT_STALL_S",
    "QUEUED_BYTES_MAX",
    "QUEUED_COMMANDS_MAX",
    "REQUEST_TIMEOUT_S",
    "RUNNING_BYTES_MAX",
    "RUNNING_MAX",
    "TOKEN_OFFSETS_MAX",
    "TRANSACTION_BYTES_MAX",
    "TRANSACTION_COMMANDS_MAX",
    "TRANSACTION_KEYS_MAX",
    "UNANSWERED_MAX",
    "WATCHED_KEYS_MAX",
]

# Redis' own default for `maxclients`. An idle connection costs some 6 KiB here.
CONNECTIONS_MAX: Final = 10_000

# Connections that wait to be accepted: a pool of some hundreds may come all at once, and one that finds this queue full
# tries again after a second.
LISTEN_BACKLOG: Final = 1024

# Words of one command. Redis takes four times as many; to make and to free their list is some 5 ms of the event loop.
ARGUMENTS_MAX: Final = 256 * 1024

# What a command reads, runs and answers on the event loop, in keys: some 4 ms. A larger one does it in a thread, while
# other connections are served.
AT_ONCE_KEYS_MAX: Final = 2048

# The words of such a command: two for each key, and its name.
AT_ONCE_WORDS_MAX: Final = 2 * AT_ONCE_KEYS_MAX + 1

# And in bytes of values: some 2 ms of copying.
AT_ONCE_BYTES_MAX: Final = 4 * 1024 * 1024

# An argument is at most a value. Redis allows 512 MiB; a value here must fit in a batch of the log.
BULK_BYTES_MAX: Final = VALUE_BYTES_MAX

# A command is held whole before it runs; this is an MSET of what one batch of the log takes.
COMMAND_BYTES_MAX: Final = 16 * 1024 * 1024

# Redis' own: a line that a person types.
INLINE_BYTES_MAX: Final = 64 * 1024

# Commands that were read and wait for those before them. Behind it the socket is not read on, so a client that sends a
# million commands at once has the rest in its own buffers and in the kernel's.
QUEUED_COMMANDS_MAX: Final = 4096

# And their bytes, with what the parser holds: two of the largest commands.
QUEUED_BYTES_MAX: Final = 32 * 1024 * 1024

# Writes of one connection that are on their way to the disk; the next ones wait in the queue above.
UNANSWERED_MAX: Final = 16_384

# Commands of one connection that run in rounds; the next ones wait in the queue above. Two rounds: one is handed over
# while the other is written.
RUNNING_MAX: Final = 6144

# And the bytes of their arguments: as much as one batch of the log takes.
RUNNING_BYTES_MAX: Final = 8 * 1024 * 1024

# Replies that the client has not read: from here on its commands do not run. They are still taken from the socket, as a
# client may send a whole pipeline before it reads the first reply ...
OUTPUT_PAUSE_BYTES: Final = 1024 * 1024

# ... up to so many bytes, which wait as they came. That is two million GETs; clients with larger pipelines read in
# between, or wait until the server does.
BACKLOG_BYTES_MAX: Final = 64 * 1024 * 1024

# From here on a client that does not read is dropped: only one command's reply can come on top of a pause, and the
# largest has 32 MiB.
OUTPUT_BYTES_MAX: Final = 64 * 1024 * 1024

# A paused client that neither takes nor sends a byte for so long is dropped: it holds memory that others could use.
OUTPUT_STALL_S: Final = 60.0

# What all connections hold together; beyond it those that hold most end. Six of the largest, and 10,000 that behave.
CLIENTS_MEBIBYTES: Final = 1024

# The values that one MGET answers with, as for a read by any other endpoint; one key may be named many times.
MGET_BYTES_MAX: Final = READ_REPLY_BYTES_MAX

# A transaction is one atomic group of one batch.
TRANSACTION_COMMANDS_MAX: Final = 10_000

# As many records as a batch has.
TRANSACTION_KEYS_MAX: Final = BATCH_RECORDS_MAX

# What it writes must fit in that batch; its commands are kept until EXEC.
TRANSACTION_BYTES_MAX: Final = COMMAND_BYTES_MAX

# Offsets in the token that a connection waits for: one for each partition of some dozens of large tables.
TOKEN_OFFSETS_MAX: Final = 65_536

# Channels that can ever be notified are shorter: a prefix and a key.
CHANNEL_BYTES_MAX: Final = 1024

# Each is one condition in the batch of EXEC.
WATCHED_KEYS_MAX: Final = 10_000

# KEYS answers with everything at once, from one node; beyond this SCAN is the way.
KEYS_REPLY_MAX: Final = 1_000_000

# And what they have in bytes: as much as every other reply.
KEYS_BYTES_MAX: Final = READ_REPLY_BYTES_MAX

# A cursor names a key of up to 511 bytes, which does not fit in the 64 bits that clients send back.
CURSORS_MAX: Final = 10_000

# Redis has no deadline for a command. Here a command may wait for a replica or for the log, and not for ever.
REQUEST_TIMEOUT_S: Final = 15.0
