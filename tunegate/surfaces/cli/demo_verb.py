"""`tunegate demo`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("demo", with_run=False)
@click.argument("folder", default="runs/triage", required=False)
def command(folder: str, show: Show) -> Result:
    """Fine-tune a small model on the bundled triage task, from file to report.

    The run is written to FOLDER; where one stands there already, it goes on.
    """
    from tunegate import verbs

    return verbs.demo(folder, show=show)
