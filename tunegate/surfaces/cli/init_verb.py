"""`tunegate init`."""

from __future__ import annotations

import sys

import click

from tunegate.drive import Show
from tunegate.surfaces.cli.calling import verb
from tunegate.verbs.run import Result


@verb("init", with_run=False)
@click.argument("folder", default=".", required=False, metavar="[FOLDER]")
@click.option("--train", metavar="FILE", help="Your rows, JSON Lines. The only one that must be.")
@click.option("--validation", metavar="FILE", help="Left out, split off the training rows.")
@click.option("--test", metavar="FILE", help="Left out, split off the training rows.")
@click.option("--answer", metavar="KIND", help="label, json or text; left out, read off the rows.")
@click.option(
    "--escape", metavar="CLASS", help='The class that means "none of these"; "" for none.'
)
@click.option("--prompt", metavar="TEXT", help="The system prompt; left out, one to start from.")
@click.option(
    "--base",
    metavar="MODEL",
    help="A folder, org/name@revision, or left out: bundled:smollm2-135m-instruct.",
)
def command(
    folder: str,
    train: str | None,
    validation: str | None,
    test: str | None,
    answer: str | None,
    escape: str | None,
    prompt: str | None,
    base: str | None,
    show: Show,
) -> Result:
    """Write a run file for rows of your own, and split them.

    On a terminal it asks for what no option says, at most five questions. FOLDER is made where it
    is not there; nothing in it is written over.
    """
    from tunegate import verbs

    if sys.stdin.isatty() and not click.get_current_context().params["as_json"]:
        from tunegate.compare.wording import enumerated
        from tunegate.verbs import begin

        train = train or click.prompt("1. The file with your rows (JSON Lines)", err=True)
        found = begin.survey(train, answer=answer)
        if answer is None:
            answer = click.prompt(
                "2. What the model answers: label, json or text",
                default=found.answer,
                type=click.Choice(begin.ANSWERS),
                show_choices=False,
                err=True,
            )
            found = begin.survey(train, answer=answer)
        labels = found.looked.labels()
        if escape is None and labels:
            named = enumerated(labels, most=8)
            escape = click.prompt(
                f'3. The class that means "none of these" ({named}), or nothing',
                default=found.escape or "",
                err=True,
            )
        if prompt is None and found.looked.system() is None:
            prompt = click.prompt(
                "4. The system prompt (nothing: one to edit)", default="", err=True
            )
        base = base or click.prompt("5. The base model", default=begin.BASE, err=True)
    return verbs.init(
        folder, train=train, validation=validation, test=test, answer=answer, escape=escape,
        prompt=prompt or None, base=base, show=show,
    )  # fmt: skip
