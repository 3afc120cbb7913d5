"""The list of administration commands: questions, the verbs as they are declared, and the jobs."""

from __future__ import annotations

import typer

from duramen.cli.admin import inspect as looking
from duramen.cli.admin import jobs, versions
from duramen.cli.admin import list as listing
from duramen.cli.admin import restore as restoring
from duramen.cli.admin.verb_command import command_of
from router.admin.verbs import VERBS

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
app.command("snapshots")(listing.snapshots)
app.command("versions")(versions.versions)
for _verb in VERBS.values():
    if not _verb.by_hand:
        app.command(_verb.command)(command_of(_verb))
app.command("restore")(restoring.restore)
app.command("clear")(versions.clear)
app.command("plan")(listing.plan)
app.command("jobs")(jobs.jobs)
app.command("job")(jobs.job)
app.command("abort")(jobs.abort)
app.command("resume")(jobs.resume)
