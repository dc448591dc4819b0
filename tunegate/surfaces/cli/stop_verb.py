"""`tunegate stop`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("stop")
def command(run: str, show: Show) -> Result:
    """Stop the training that runs; what is saved is kept."""
    from tunegate import verbs

    return verbs.stop(run, show=show)
