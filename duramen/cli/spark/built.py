"""What a build did, for people and for programs."""

from __future__ import annotations

from duramen.cli.admin.figures import size
from duramen.cli.terminal.output import say, say_json
from duramen.cli.terminal.text import counted
from log_tier.privacy.masked_url import mask_url
from spark_bulk.build.version_build import Built

__all__ = ["say_built"]


def say_built(built: Built, table: str, url: str, json: bool) -> None:
    """Print the result of a build."""
    version = built.version
    if json:
        say_json(
            {
                "event": "built",
                "table": table,
                "url": mask_url(url),
                "id": version.id,
                "rows": built.rows,
                "dropped": built.dropped,
                "keys": version.keys,
                "bytes": version.bytes,
                "offsets": [part.offset for part in version.parts],
            },
            flush=True,
        )
        return
    dropped = f", {counted(built.dropped, 'duplicate')} dropped" if built.dropped else ""
    what = f"{counted(version.keys, 'key')}, {size(version.bytes)} in {counted(version.partitions, 'partition')}"
    say(f"{counted(built.rows, 'row')}{dropped}: {what}")
    say(f"built at {mask_url(url)}; next: duramen bulk stage {table} {mask_url(url)}")
