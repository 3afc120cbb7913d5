"""Sparse indexes on their way to their files: in runs while a segment grows, whole when it is sealed."""

from __future__ import annotations

import logging
from typing import Final

from log_tier.embedded.segments.segment import Segment
from log_tier.embedded.segments.sparse_index import encode_entries
from log_tier.embedded.storage.disk import Disk

__all__ = ["SparseIndexWriter"]

_logger = logging.getLogger(__name__)

# Index entries go to the file in runs of this many, that is once per MiB: after a crash so much more is scanned.
_INDEX_RUN: Final = 16


class SparseIndexWriter:
    """Writes the index files of one partition. An index file is a cache: where one is not written, a scan takes its
    place, so a disk that refuses is only logged.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._unwritten: list[tuple[int, int]] = []
        """Entries of the newest segment that are not in its file yet."""

    def add(self, segment: Segment, entries: list[tuple[int, int]]) -> None:
        """Take new entries of the newest segment, and append them to its index file once they make a run."""
        self._unwritten += entries
        if len(self._unwritten) >= _INDEX_RUN:
            written, self._unwritten = self._unwritten, []
            self._write(segment, written)

    def seal(self, segment: Segment) -> None:
        """Write the whole index of the newest segment, which does not grow any more."""
        self._unwritten = []
        self._write(segment)

    def rewrite(self, segment: Segment) -> None:
        """Write the whole index of a segment that is not the newest."""
        self._write(segment)

    def _write(self, segment: Segment, entries: list[tuple[int, int]] | None = None) -> None:
        index = segment.index
        assert index is not None, "what is written is in memory"
        try:
            file = self._disk.open(segment.index_path, write=True, create=True)
            try:
                size = file.size()
                if entries is None or size == 0:
                    file.truncate(0)
                    file.pwrite((index.encode(segment.base),), 0)
                else:
                    file.pwrite((encode_entries(entries),), size)
            finally:
                file.close()
        except OSError as error:
            why = error.strerror or error
            _logger.warning("%s was not written (%s): a scan takes its place", segment.index_path, why)
