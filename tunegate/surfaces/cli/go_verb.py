"""`tunegate go`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("go")
def command(run: str, show: Show) -> Result:
    """Run every allowed stage in order, until a person is needed or the run is done."""
    from tunegate import verbs

    return verbs.go(run, show=show)
