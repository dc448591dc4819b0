"""`tunegate explain`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("explain", with_run=False)
@click.argument("kind")
def command(kind: str, show: Show) -> Result:
    """Explain an error kind."""
    from tunegate import verbs

    return verbs.explain(kind, show=show)
