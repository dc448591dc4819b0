"""The command line: `tunegate VERB [RUN] [--json]`. Only click is imported before a verb is known.

Each verb is one small module beside this one, named like the verb, that holds `command`. The table
below repeats their first help lines so that `tunegate --help` imports none of them; a test
compares.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

from tunegate import __version__
from tunegate.errors import EXIT_CODES

VERBS: dict[str, str] = {
    "demo": "Fine-tune a small model on the bundled triage task, from file to report.",
    "init": "Write a run file for rows of your own, and split them.",
    "go": "Run every allowed stage in order, until a person is needed or the run is done.",
    "status": "Say where the run stands and which commands are allowed next.",
    "freeze": "Pin every input of the run by digest and resolve every setting.",
    "research": "Gate 1: settings and their reasons, bands, what the test set can show.",
    "check": "Gate 2: mask, stop token, template, lengths, leakage; over every row.",
    "wire": "Gate 2: learn 20 rows by heart, save, reload, answer exactly.",
    "quote": "Hours, money, checkpoint interval and what a crash may cost.",
    "release": "Gate 3: release the run; a person does, or policy where it costs nothing.",
    "train": "Train under a release; with --dry-run, everything short of the launch.",
    "watch": "Show what the run does now: curves, speed, time left, work at risk, spend.",
    "stop": "Stop the training that runs; what is saved is kept.",
    "resume": "Go on training from the last complete checkpoint.",
    "eval": "Fill the three columns and compare them, by class and slice.",
    "report": "Write report.html and report.md from what is there, and say where.",
    "decide": "One recommended next step, and the rule that fired.",
    "record": "Write the run down: settings, scores, cost, decision.",
    "doctor": "Look over this machine: what is there, what is missing, and what to do.",
    "schema": "The JSON Schema of a run file, so that an editor completes and checks it.",
    "explain": "What an error kind means, its exit code, and the way out.",
}

GROUPS: dict[str, tuple[str, ...]] = {
    "Start here": ("demo", "init", "go", "status"),
    "Stages, in the order in which `go` runs them": (
        *("freeze", "research", "check", "wire", "quote", "release", "train"),
        *("eval", "report", "decide", "record"),
    ),
    "While it trains": ("watch", "stop", "resume"),
    "To look up": ("doctor", "explain", "schema"),
}
"""The verbs as `--help` lists them."""

_EPILOG = "\b\nExit codes:\n" + "\n".join(
    f"  {code:>3}  {text}" for code, text in EXIT_CODES.items()
)


class Verbs(click.Group):
    """Imports a verb's module when the verb is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module: Any = importlib.import_module(f"{__name__}.{cmd_name}_verb")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"no such verb {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, VERBS[name]) for name in names])


@click.group(
    cls=Verbs,
    invoke_without_command=True,
    subcommand_metavar="VERB [RUN] ...",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    __version__, "-V", "--version", prog_name="tunegate", message="%(prog)s %(version)s"
)
def cli() -> None:
    """Run a fine-tune that proves itself before it spends.

    RUN is a run file, or a folder that holds run.yaml; left out, it is the folder you are in.
    Start with `tunegate demo`, or with `tunegate init` for rows of your own.
    """
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Entry point of the `tunegate` command."""
    try:
        code = cli.main(prog_name="tunegate", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("error: interrupted", err=True)
        code = 130
    except click.ClickException as exc:
        code = _usage(exc)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(exc: click.ClickException) -> int:
    """A wrong command line, in the form of all other errors."""
    said = exc.format_message()
    message = (said[:1].lower() + said[1:]).rstrip(".")
    if "--json" in sys.argv[1:]:
        import json

        error = {
            "kind": "usage",
            "message": message,
            "hint": "tunegate --help",
            "where": None,
        }
        verb = next((arg for arg in sys.argv[1:] if arg in VERBS), None)
        click.echo(
            json.dumps(
                {
                    "ok": False,
                    "code": 2,
                    "verb": verb,
                    "run": None,
                    "data": {},
                    "next": [],
                    "error": error,
                }
            )
        )
    else:
        click.echo(f"error: {message}", err=True)
        context = getattr(exc, "ctx", None)
        click.echo(f"hint: {context.command_path if context else 'tunegate'} --help", err=True)
    return 2
