"""`tunegate eval`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("eval")
@click.option(
    "--column", type=click.Choice(["raw", "tuned", "teacher"]), help="Fill this column only."
)
def command(run: str, column: str | None, show: Show) -> Result:
    """Fill the three columns and compare them, by class and slice."""
    from tunegate import verbs

    return verbs.eval(run, column=column, show=show)
