"""A log that loses its end while its server is stopped, with the indexes that were folded from it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from log_tier.model.batch_header import MAGIC

__all__ = ["DAMAGES", "lose_the_end"]

DAMAGES: Final = ("zeroed", "truncated", "emptied", "removed")
"""What may become of the newest segment: its last batches are zeros or cut off, or it holds nothing, or is gone."""


def lose_the_end(folder: Path, key: bytes, damage: str) -> None:
    """Damage the segment that holds `key`, below `folder`, from its last batch but one on; remove the indexes."""
    for index in [*folder.glob("index"), *folder.glob("*/index")]:
        shutil.rmtree(index)
    segments = [(each, each.read_bytes()) for each in folder.rglob("topics/*/*/*.log")]
    ((segment, stored),) = [(each, stored) for each, stored in segments if key in stored]
    cut = stored.rfind(MAGIC, 0, stored.rfind(MAGIC))
    match damage:
        case "zeroed":
            segment.write_bytes(stored[:cut] + bytes(len(stored) - cut))
        case "truncated":
            segment.write_bytes(stored[:cut])
        case "emptied":
            segment.write_bytes(b"")
        case _:
            segment.unlink()
