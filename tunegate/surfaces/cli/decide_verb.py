"""`tunegate decide`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("decide")
def command(run: str, show: Show) -> Result:
    """One recommended next step, and the rule that fired."""
    from tunegate import verbs

    return verbs.decide(run, show=show)
