"""`tunegate record`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("record")
def command(run: str, show: Show) -> Result:
    """Write the run down: settings, scores, cost, decision."""
    from tunegate import verbs

    return verbs.record(run, show=show)
