"""Call a verb and say what came of it: text for people, one JSON object for agents, always an exit
code.
"""

from __future__ import annotations

import functools
import json
import sys
import traceback
from collections.abc import Callable
from typing import Any

import click

from tunegate.errors import EXIT_INTERRUPTED, TunegateError, of_system

MAX_JSON_BYTES = 8_000

run_argument = click.argument("run", metavar="[RUN]", default=".", required=False)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout."
)


def verb(
    name: str, *, with_run: bool = True, follow: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], click.Command]:
    """Turn a function that returns a `Result` into a command with RUN, --json and exit codes.

    `follow` stands in for the function where a person looks on, that is without --json.
    """

    def decorate(function: Callable[..., Any]) -> click.Command:
        @functools.wraps(function)
        def call(as_json: bool, **parameters: Any) -> int:
            chosen = follow if follow is not None and not as_json else function
            return _call(name, chosen, as_json, parameters)

        wrapped: Any = json_option(call)
        if with_run:
            wrapped = run_argument(wrapped)
        command: click.Command = click.command(name)(wrapped)
        return command

    return decorate


def _call(
    name: str, function: Callable[..., Any], as_json: bool, parameters: dict[str, Any]
) -> int:
    import signal

    from tunegate.surfaces import render

    # Told to stop is told to stop, be it from the keyboard or by the system: what trains is saved.
    # A terminal that closes (SIGHUP) ends the command alone; what trains goes on.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = parameters.get("run")
    progress = render.ProgressLines(sys.stderr, live=sys.stderr.isatty() and not as_json)
    try:
        with progress:
            result = function(show=progress.show, **parameters)
    except TunegateError as exc:
        return _fail(name, run, exc, as_json)
    except KeyboardInterrupt:
        error = TunegateError(
            "interrupted", kind="interrupted", hint="the same command goes on from where it stood"
        )
        error.exit_code = EXIT_INTERRUPTED
        return _fail(name, run, error, as_json)
    except Exception as exc:  # noqa: BLE001 - the last boundary: whatever escapes is our own fault
        refused = of_system(exc) if isinstance(exc, OSError) else None
        if refused is not None:
            return _fail(name, run, refused, as_json)
        traceback.print_exc(file=sys.stderr)
        ours = TunegateError(
            f"{type(exc).__name__}: {exc}",
            hint="this is a fault of tunegate; please report the text above",
        )
        return _fail(name, run, ours, as_json)
    if as_json:
        click.echo(_fit(result.to_json()))
    else:
        click.echo(render.result(result))
    return 0


def _fail(name: str, run: str | None, error: TunegateError, as_json: bool) -> int:
    from tunegate.surfaces import render

    if as_json:
        body = {
            "ok": False,
            "code": error.exit_code,
            "verb": name,
            "run": run,
            "data": {},
            "next": [],
            "error": error.to_json(),
        }
        click.echo(_fit(body))
    else:
        click.echo(render.error(error), err=True)
    return error.exit_code


def _fit(body: dict[str, Any]) -> str:
    """The object as JSON within the promised size: longer material lies in files."""
    for limit in (None, 1000, 300, 100, 30):
        shortened = body if limit is None else _shorten(body, limit)
        # A folder's name need not be UTF-8; what cannot be written is shown as a mark.
        text = json.dumps(shortened, ensure_ascii=False).encode("utf-8", "replace").decode()
        if len(text.encode()) < MAX_JSON_BYTES:
            break
    return text


def _shorten(value: Any, limit: int) -> Any:
    """The same shape with texts cut to `limit` characters and lists to a few items."""
    if isinstance(value, str):
        return value if len(value) <= limit else value[: limit - 1] + "…"
    if isinstance(value, list | tuple):
        return [_shorten(item, limit) for item in value[: max(5, limit // 20)]]
    if isinstance(value, dict):
        return {key: _shorten(item, limit) for key, item in value.items()}
    return value
