"""`tunegate doctor`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("doctor", with_run=False)
def command(show: Show) -> Result:
    """Look over this machine: what is there, what is missing, and what to do.

    Ends with exit code 2 where something keeps a fine-tune from running.
    """
    from tunegate import verbs

    return verbs.doctor(show=show)
