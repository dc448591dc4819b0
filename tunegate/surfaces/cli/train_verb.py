"""`tunegate train`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("train")
@click.option(
    "--dry-run", is_flag=True, help="Everything short of the launch: settings, memory, offer."
)
def command(run: str, dry_run: bool, show: Show) -> Result:
    """Train under a release; with --dry-run, everything short of the launch."""
    from tunegate import verbs

    return verbs.train(run, dry_run=dry_run, show=show)
