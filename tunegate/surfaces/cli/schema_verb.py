"""`tunegate schema`."""

from __future__ import annotations

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("schema", with_run=False)
@click.argument("file", required=False)
def command(file: str | None, show: Show) -> Result:
    """The JSON Schema of a run file, so that an editor completes and checks it.

    Without FILE it is printed. With FILE it is written there; an editor that speaks YAML (VS Code
    with the YAML extension, or any with yaml-language-server) reads it where the first line of
    run.yaml names it:

    \b
        tunegate schema run.schema.json
        # yaml-language-server: $schema=run.schema.json
    """
    from tunegate import verbs

    return verbs.schema(file, show=show)
