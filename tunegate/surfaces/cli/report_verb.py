"""`tunegate report`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("report")
def command(run: str, show: Show) -> Result:
    """Write report.html and report.md from what is there, and say where."""
    from tunegate import verbs

    return verbs.report(run, show=show)
