"""`tunegate watch`."""

from __future__ import annotations

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


def _follow(run: str, show: Show) -> Result:
    from tunegate.surfaces import live

    return live.follow(run)


@verb("watch", follow=_follow)
def command(run: str, show: Show) -> Result:
    """Show what the run does now: curves, speed, time left, work at risk, spend.

    It follows the run until it ends; Ctrl-C ends the watching, never the training. Without a
    terminal it prints a line when something changes, and with --json one snapshot.
    """
    from tunegate import verbs

    return verbs.watch(run, show=show)
