"""`tunegate freeze`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("freeze")
def command(run: str, show: Show) -> Result:
    """Pin every input of the run by digest and resolve every setting."""
    from tunegate import verbs

    return verbs.freeze(run, show=show)
