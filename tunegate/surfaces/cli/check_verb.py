"""`tunegate check`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("check")
@click.option(
    "--only", multiple=True, metavar="CHECK", help="Run this check only; may be repeated."
)
def command(run: str, only: tuple[str, ...], show: Show) -> Result:
    """Gate 2: mask, stop token, template, lengths, leakage; over every row."""
    from tunegate import verbs

    return verbs.check(run, only=only, show=show)
