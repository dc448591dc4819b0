"""`tunegate resume`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("resume")
def command(run: str, show: Show) -> Result:
    """Go on training from the last complete checkpoint."""
    from tunegate import verbs

    return verbs.resume(run, show=show)
