"""A virtual environment that has what `pip install duramen` installs: the core dependencies, and no extra.

Nothing is fetched. What is installed for the suite is linked into the new environment, distribution by distribution, as
the package's metadata name them. Modules of all others are not there.
"""

from __future__ import annotations

import csv
import venv
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution, distributions
from itertools import accumulate
from pathlib import Path, PurePath
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["core_distributions", "plain_install"]

_PRODUCT: Final = "duramen"


def core_distributions(product: str = _PRODUCT) -> set[str]:
    """The canonical names of what is installed with `product` where no extra is asked for, itself included."""
    found: set[str] = set()
    pending = [Requirement(product)]
    while pending:
        wanted = pending.pop()
        name = canonicalize_name(wanted.name)
        found.add(name)
        for line in distribution(name).requires or ():
            needed = Requirement(line)
            marker = needed.marker
            asked = marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *wanted.extras))
            if asked and (needed.extras or canonicalize_name(needed.name) not in found):
                pending.append(needed)
    return found


def plain_install(folder: Path) -> Path:
    """Make the environment in `folder`, which is not there yet. Returns its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    core = core_distributions()
    kept, left_out = list[Distribution](), list[Distribution]()
    for each in distributions():
        (kept if canonicalize_name(each.metadata["Name"]) in core else left_out).append(each)
    tops = {file.partition("/")[0] for each in kept for file in _modules_of(each)}
    shared = set[str]()
    for each in left_out:
        for file in _modules_of(each):
            if file.partition("/")[0] in tops:
                shared.update(map(str, PurePath(file).parents))
    for each in kept:
        for file in _modules_of(each):
            # A folder is linked whole, unless another distribution has a part of it.
            whole = next(place for place in accumulate(file.split("/"), "{}/{}".format) if place not in shared)
            link = packages / whole
            if not link.exists():
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(Path(str(each.locate_file(whole))))
    return folder / "bin" / "python"


def _modules_of(each: Distribution) -> Iterator[str]:
    """The files of a distribution that belong into `site-packages`, relative to it."""
    for row in csv.reader((each.read_text("RECORD") or "").splitlines()):
        if not row[0].startswith(("../", "/", "__pycache__/")):
            yield row[0]
