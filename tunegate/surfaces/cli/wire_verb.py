"""`tunegate wire`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("wire")
@click.option(
    "--tiny",
    is_flag=True,
    help="Use a random model of about a million weights: seconds, no figures.",
)
def command(run: str, tiny: bool, show: Show) -> Result:
    """Gate 2: learn 20 rows by heart, save, reload, answer exactly."""
    from tunegate import verbs

    return verbs.wire(run, tiny=tiny, show=show)
