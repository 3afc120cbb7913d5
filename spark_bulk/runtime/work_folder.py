"""The folder for large files of a Spark worker."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

__all__ = ["work_folder"]


def work_folder() -> Path:
    """One of the folders that Spark gives its workers and removes when it ends; without any, the temporary folder.

    Drawn anew by each call, so that tasks spread over the disks.
    """
    folders = [each for each in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if os.path.isdir(each)]
    return Path(random.choice(folders) if folders else tempfile.gettempdir())
