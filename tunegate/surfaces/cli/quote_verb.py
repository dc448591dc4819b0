"""`tunegate quote`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("quote")
def command(run: str, show: Show) -> Result:
    """Hours, money, checkpoint interval and what a crash may cost."""
    from tunegate import verbs

    return verbs.quote(run, show=show)
