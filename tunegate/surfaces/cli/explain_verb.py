"""`tunegate explain`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("explain", with_run=False)
@click.argument("kind")
def command(kind: str, show: Show) -> Result:
    """What an error kind means, its exit code, and the way out.

    KIND is the word in `error.kind` of a command with --json; docs/errors.md lists all.
    """
    from tunegate import verbs

    return verbs.explain(kind, show=show)
