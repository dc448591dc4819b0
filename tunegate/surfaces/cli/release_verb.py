"""`tunegate release`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("release")
@click.option(
    "--waive",
    multiple=True,
    metavar="CHECK=REASON",
    help="Let a check that did not pass go, with a reason that the report shows. A person only.",
)
def command(run: str, waive: tuple[str, ...], show: Show) -> Result:
    """Gate 3: release the run; a person does, or policy where it costs nothing."""
    from tunegate import verbs

    return verbs.release(run, waive=verbs.parse_waivers(waive), show=show)
