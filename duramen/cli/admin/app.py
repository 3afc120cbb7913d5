"""The list of administration commands."""

from __future__ import annotations

import typer

from duramen.cli.admin import inspect as looking
from duramen.cli.admin import jobs, upkeep, versions
from duramen.cli.admin import list as listing
from duramen.cli.admin import move as moving
from duramen.cli.admin import restore as restoring

__all__ = ["app"]

_HELP = """
Look at a cluster, and change it.

\b
  duramen admin nodes                             # who is there
  duramen admin partitions flights                # who holds what, and how it stands
  duramen admin lag                               # who is behind
  duramen admin explain flights UA1545            # one key: where, what, since when
  duramen admin verify flights                    # are the replicas equal?
  duramen admin drain n2 --dry-run                # what would it move, and how long would it take?
  duramen admin drain n2                          # do it, and wait
  duramen admin jobs                              # what is under way

Any server of the cluster answers (--at HOST:PORT). What changes something is a job: it goes on when this command, the
server that it asked, or a node ends, and can be watched (job), given up (abort) and taken up again (resume).
"""

app = typer.Typer(help=_HELP, no_args_is_help=True, rich_markup_mode=None)
app.command("nodes")(listing.nodes)
app.command("partitions")(listing.partitions)
app.command("lag")(listing.lag)
app.command("explain")(looking.explain)
app.command("verify")(looking.verify)
app.command("snapshot")(upkeep.snapshot)
app.command("snapshots")(listing.snapshots)
app.command("restore")(restoring.restore)
app.command("move")(moving.move)
app.command("drain")(moving.drain)
app.command("rebalance")(moving.rebalance)
app.command("retire")(moving.retire)
app.command("set-replicas")(moving.set_replicas)
app.command("trim")(upkeep.trim)
app.command("compact")(upkeep.compact)
app.command("versions")(versions.versions)
app.command("stage")(versions.stage)
app.command("swap")(versions.swap)
app.command("rollback")(versions.rollback)
app.command("discard")(versions.discard)
app.command("clear")(versions.clear)
app.command("jobs")(jobs.jobs)
app.command("job")(jobs.job)
app.command("abort")(jobs.abort)
app.command("resume")(jobs.resume)
