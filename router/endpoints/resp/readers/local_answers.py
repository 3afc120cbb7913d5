"""The replies to commands that a reader process answers by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice

from router.endpoints.resp.command_spec import CommandSpec
from router.endpoints.resp.commands.command_table import find_command
from router.endpoints.resp.connection.runs import GetRuns
from router.endpoints.resp.data.key_views import ReadOnlyView
from router.endpoints.resp.data.local_reads import LocalReads
from router.endpoints.resp.data.reads import check_keys
from router.endpoints.resp.readers.reader_table import ReaderTable
from router.endpoints.resp.wire.fallback_parser import RespCommand
from router.endpoints.resp.wire.replies import NULL, Problem, encode

__all__ = ["LocalAnswers"]


class LocalAnswers:
    """Of one connection."""

    def __init__(self, reads: LocalReads, clock_ms: Callable[[], int]) -> None:
        self._reads = reads
        self._runs = GetRuns(reads)
        self._clock_ms = clock_ms

    def first(
        self, table: ReaderTable, spec: CommandSpec, queue: deque[RespCommand], protocol: int
    ) -> tuple[bytes | None, int]:
        """The reply to the first command of a queue, whose spec this is, with those to GETs that follow a GET, and how
        many commands they answer. None where the reply is the server's to make.
        """
        command = queue[0]
        if spec.name == "get":
            keys = [command[1]]
            for following in islice(queue, 1, self._runs.keys_max):
                if len(following) != len(command) or find_command(following[0]) is not spec:
                    break
                keys.append(following[1])
            return self._runs.answer(table, keys, NULL[protocol]) or (None, 0)
        if spec.name == "mget":
            replies = self._reads.values(table, command[1:], NULL[protocol])
            return None if replies is None else b"*%d\r\n%b" % (len(command) - 1, replies), 1
        return self._other(table, spec, command, protocol), 1

    def _other(self, table: ReaderTable, spec: CommandSpec, command: RespCommand, protocol: int) -> bytes | None:
        try:
            keys = spec.keys(command)
            check_keys(keys)
            found = self._reads.at_once(table, keys)
            if found is None:
                return None
            return encode(spec.run(ReadOnlyView(found, self._clock_ms()), command[1:]), protocol)
        except Problem as problem:
            return encode(problem, protocol)
