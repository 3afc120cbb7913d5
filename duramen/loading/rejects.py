"""The rejects file: rows that could not be loaded, one JSON object a line, made when there is a first one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from duramen.loading.rows import Reject
from log_tier.privacy.private_files import private_opener

__all__ = ["RejectsFile"]


class RejectsFile:
    """Use it with `with`; what an earlier run left at `path` is replaced by the first reject."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, rejects: Sequence[Reject]) -> None:
        """Write rejected rows to the file, which the first of them creates, and count them."""
        if not rejects:
            return
        if self._file is None:
            self._file = open(self.path, "w", encoding="utf-8", opener=private_opener)  # noqa: SIM115 - closed by __exit__
        for reject in rejects:
            self._file.write(json.dumps(reject._asdict(), ensure_ascii=False) + "\n")
        self._file.flush()
        self.count += len(rejects)
