"""`tunegate research`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("research")
def command(run: str, show: Show) -> Result:
    """Gate 1: settings and their reasons, bands, what the test set can show."""
    from tunegate import verbs

    return verbs.research(run, show=show)
