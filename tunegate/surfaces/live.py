"""Follow a run: a live picture on a terminal, elsewhere a line when something changes."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Iterator
from typing import Any

from tunegate import verbs
from tunegate.drive import failure
from tunegate.surfaces.plot import braille
from tunegate.surfaces.render import QUIET_LINE_S, clock
from tunegate.types import Json
from tunegate.verbs.run import Result

LOOK_S = 0.5
GONE_S = 2.0
"""A command starts its next job within this time after it took the run's lock."""
WIDTH, HEIGHT = 60, 8


def follow(run: str) -> Result:
    """Watch until nothing is at work on the run. Raises the error that the last job ended with."""
    found = verbs.watch(run)
    if found.data["state"] not in ("running", "between"):
        return _ended(found)
    # Ctrl-C is meant for the watching alone; the job is in a session of its own.
    with contextlib.suppress(KeyboardInterrupt):
        return _ended(_draw(run) if sys.stdout.isatty() else _lines(run))
    text = "no longer watching; the run goes on"
    return Result("watch", found.run, text, {}, found.next)


def _ended(found: Result) -> Result:
    outcome = found.data.get("outcome")
    if outcome and outcome["code"] != 0:
        from pathlib import Path

        raise failure(Path(found.data["folder"]), outcome["code"])
    return found


def _looks(run: str) -> Iterator[Result]:
    """Snapshots until nothing has been at work for a while."""
    quiet_since: float | None = None
    while quiet_since is None or time.monotonic() - quiet_since < GONE_S:
        found = verbs.watch(run)
        yield found
        if found.data["state"] in ("running", "between"):
            quiet_since = None
        elif quiet_since is None:
            quiet_since = time.monotonic()
        time.sleep(LOOK_S)


def _lines(run: str) -> Result:
    last: tuple[Any, ...] = ()
    printed_at = -math.inf
    for found in _looks(run):
        data = found.data
        checkpoint = (data.get("checkpoint") or {}).get("step")
        change = (
            data["state"], data["job"], data.get("phase"), data.get("validation_loss"),
            checkpoint, data.get("silent"),
        )  # fmt: skip
        quiet_s = time.monotonic() - printed_at
        if change != last or (data["state"] == "running" and quiet_s > QUIET_LINE_S):
            last, printed_at = change, time.monotonic()
            sys.stdout.write(found.summary + "\n")
            sys.stdout.flush()
    return found


def _draw(run: str) -> Result:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), refresh_per_second=4, transient=False) as live:
        for found in _looks(run):
            live.update(picture(dict(found.data)))
    return found


def picture(data: Json) -> Any:
    """The snapshot as something that rich draws."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    parts: list[Any] = [Text(_head(data), style="bold")]
    if (data.get("curve") or {}).get("loss"):
        parts += _curves(data)
    table = Table.grid(padding=(0, 2))
    for name, value in figures(data):
        table.add_row(Text(name, style="dim"), value)
    parts.append(table)
    if data.get("silent"):
        parts.append(
            Text(f"silent for {data['silent_s']:.0f} s: it may hang; tunegate stop ends it",
                 style="bold red")
        )  # fmt: skip
    return Group(*parts)


def _head(data: Json) -> str:
    if not data["job"]:
        return "a command is at work between two jobs"
    total = data.get("total")
    share = f"  {100 * (data['done'] or 0) / total:.0f} %" if total else ""
    return f"{data['job']}: {data.get('phase') or data['state']}{share}"


def _curves(data: Json) -> list[Any]:
    from rich.text import Text

    loss, validation = data["curve"]["loss"], data["curve"]["validation"]
    values = [y for _, y in [*loss, *validation] if math.isfinite(y)]
    if not values:
        return []
    low, high = min(values), max(values)
    area: Json = {
        "width": WIDTH,
        "height": HEIGHT,
        "x_max": data["steps"],
        "low": low,
        "high": high,
    }
    trained = braille([p for p in loss if math.isfinite(p[1])], **area)
    held = braille(validation, **area)
    lines: list[Any] = []
    for number in range(HEIGHT):
        edge = {0: f"{high:8.3f} ", HEIGHT - 1: f"{low:8.3f} "}.get(number, " " * 9)
        line = Text()
        line.append(edge, style="dim")
        for dots, marks in zip(trained[number], held[number], strict=True):
            # One character has one colour: validation, the rarer, is drawn over the training loss.
            marked = marks != chr(0x2800)
            both = chr(ord(dots) | ord(marks))
            line.append(both, style="bold yellow" if marked else "cyan")
        lines.append(line)
    foot = Text(" " * 9)
    foot.append("training loss", style="cyan")
    foot.append("  validation loss", style="bold yellow")
    foot.append(f"  steps 0 to {data['steps']}", style="dim")
    return [*lines, foot]


def figures(data: Json) -> list[tuple[str, str]]:
    """Name and value of what is known."""
    out: list[tuple[str, str]] = []
    if data.get("steps"):
        out.append(("step", f"{data['step']} of {data['steps']}"))
    if data.get("loss") is not None:
        out.append(("loss", f"{data['loss']:.4f}"))
    if data.get("best"):
        best = f"best {data['best']['loss']:.4f} at step {data['best']['step']}"
        out.append(("validation", f"{data['validation_loss']:.4f}, {best}"))
    if data.get("eta_s") is not None:
        out.append(("time left", f"{clock(data['eta_s'])} of this phase"))
    if data.get("tokens_per_s"):
        out.append(("speed", f"{data['tokens_per_s']:.0f} tokens/s"))
    elif data.get("rows_per_s"):
        out.append(("speed", f"{data['rows_per_s']:.1f} rows/s"))
    checkpoint = data.get("checkpoint") or {}
    if checkpoint.get("age_s") is not None:
        saved = f"step {checkpoint['step']}" if checkpoint["step"] else "none yet"
        risk = f"{checkpoint['age_s'] / 60:.1f} min at risk"
        out.append(("checkpoint", f"{saved}, {risk} of {checkpoint['minutes_allowed']:g} allowed"))
    if data.get("spend"):
        spend = data["spend"]
        out.append(("spend", f"{spend['money']} of {spend['ceiling']} {spend['currency']}"))
    if data.get("memory_gib") is not None:
        out.append(("memory", f"{data['memory_gib']:.2f} GiB"))
    out += [("note", note) for note in data.get("notes") or ()]
    return out
