"""docs/command-line.md: every verb with its arguments and options, as `--help` shows them."""

from __future__ import annotations

import click

from tunegate.surfaces.cli import VERBS, cli

SOURCE = "the commands in tunegate/surfaces/cli/"

WIDTH = 100


def render() -> str:
    """The page's text."""
    parent = click.Context(cli, info_name="tunegate", terminal_width=WIDTH)
    out = [
        "# The command line",
        "",
        "`tunegate VERB [RUN] [--json]`. Results go to stdout; progress, errors and hints to "
        "stderr. With `--json` stdout holds one object, at most 8 KB; longer material is a file "
        "that it names. Exit codes: [errors.md](errors.md). Each verb is a function of the same "
        "name in `tunegate.verbs`.",
        "",
        "| verb | what it does |",
        "|---|---|",
        *(f"| [`{name}`](#{name}) | {about} |" for name, about in VERBS.items()),
    ]
    for name in VERBS:
        command = cli.get_command(parent, name)
        assert command is not None
        context = click.Context(command, info_name=name, parent=parent, terminal_width=WIDTH)
        out += ["", f"## {name}", "", "```", command.get_help(context), "```"]
    return "\n".join(out)
