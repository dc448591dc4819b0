"""`tunegate status`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("status")
def command(run: str, show: Show) -> Result:
    """Say where the run stands and which commands are allowed next."""
    from tunegate import verbs

    return verbs.status(run, show=show)
