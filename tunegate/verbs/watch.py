"""watch: what a run is doing now, read from its folder; the run does not notice."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from tunegate import curves, drive
from tunegate.drive import Show, no_show
from tunegate.types import Json
from tunegate.verbs.halt import job_name, jobs
from tunegate.verbs.run import Result, Run

SILENT_STEPS = 10.0
SILENT_S = 30.0
"""A job is called silent after the longer of so many median steps and so many seconds."""
POINTS = 60
"""Points of a curve in the snapshot."""
SIGNS = ("handle.json", "progress.json", "metrics.jsonl", "log")
"""Files that are written when a job starts, and while it lives."""


def watch(run: str | Path, *, show: Show = no_show) -> Result:
    """What runs now: step, speed, time left, curves, checkpoint age, spend; or how it ended.

    One look. `data.state` is running, between (a command is at work between two jobs), ended or
    idle (nothing ran yet).
    """
    opened = Run(run, show=show)
    data = _snapshot(opened)
    next_ = (f"tunegate stop {opened.argument}",) if data["state"] == "running" else opened.next()
    return Result("watch", opened.argument, one_line(data), data, next_)


def _snapshot(run: Run) -> Json:
    found = jobs(run)
    running = next(((host, path) for host, path in found if host.poll(path).running), None)
    if running is None and _is_driven(run):
        return {"state": "between", "job": None}
    if running is None and not found:
        return {"state": "idle", "job": None}
    host, path = running or found[0]
    data: Json = {
        "state": "running" if running else "ended",
        "job": job_name(path),
        "folder": str(path),
        **_progress(path),
        **(_training(run, path) if path.parent.name == "attempts" else {}),
    }
    if running:
        data["memory_gib"] = host.memory_gib(path)
        data["silent_s"] = _silent_s(path)
        typical = data.get("step_s_median") or 0.0
        data["silent"] = data["silent_s"] > max(SILENT_S, SILENT_STEPS * typical)
    else:
        data["outcome"] = _outcome(path, host.poll(path).exit_code)
    return data


def _progress(path: Path) -> Json:
    try:
        raw = json.loads((path / "progress.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raw = {}
    return {key: raw.get(key) for key in ("phase", "done", "total", "eta_s", "rows_per_s")}


def _training(run: Run, path: Path) -> Json:
    """Curves, speed, checkpoint and spend of an attempt."""
    rows = drive.read_outputs(path / "metrics.jsonl")
    seen = curves.read(rows)
    losses = [[row["step"], round(row["loss"], 4)] for row in rows if "loss" in row]
    # The log is thinned evenly; the newest point stays.
    every = max(1, -(-len(losses) // POINTS))
    settings = run.frozen["settings"]
    found: Json = {
        "step": seen["steps"],
        "steps": settings["train"]["total_steps"],
        "loss": seen["last_loss"],
        "validation_loss": (seen["validation"] or [{"loss": None}])[-1]["loss"],
        "best": seen["validation_minimum"],
        "tokens_per_s": seen["tokens_per_s"],
        "step_s_median": seen["step_s_median"],
        "trained_s": round(max((float(row["t_s"]) for row in rows), default=0.0), 1),
        # What curves say of the end of a run says nothing while it goes on.
        "notes": seen["notes"] if seen["diverged"] else [],
        "curve": {
            "loss": losses[::-1][::every][::-1],
            "validation": [[p["step"], round(p["loss"], 4)] for p in seen["validation"]][-POINTS:],
        },
        "checkpoint": _checkpoint(path, settings["limits"]["minutes_at_risk"]),
    }
    with contextlib.suppress(OSError, ValueError, KeyError):
        found["spend"] = _spend(run, found["trained_s"])
    return found


def _checkpoint(path: Path, allowed_min: float) -> Json:
    """The newest checkpoint, and the minutes of work that a crash would cost now."""
    lines = drive.read_outputs(path / "checkpoints.jsonl")
    last = max(lines, key=lambda line: int(line["step"]), default=None)
    if last is not None:
        since = datetime.fromisoformat(last["at"]).timestamp()
    else:
        with contextlib.suppress(OSError):
            since = (path / "job.json").stat().st_mtime
            return {"step": None, "age_s": _age(since), "minutes_allowed": allowed_min}
        return {"step": None, "age_s": None, "minutes_allowed": allowed_min}
    return {"step": last["step"], "age_s": _age(since), "minutes_allowed": allowed_min}


def _age(since: float) -> float:
    """Seconds since a time of the wall clock; 0 where that clock was set back."""
    return round(max(0.0, time.time() - since), 1)


def _spend(run: Run, trained_s: float) -> Json:
    quote = run.store.read("quote.json")
    price = Decimal(quote["offer"]["price_per_h"])
    spent = (price * Decimal(str(trained_s)) / 3600).quantize(Decimal("0.01"))
    return {
        "money": str(spent) if price else "0",
        "ceiling": quote["money"]["ceiling"],
        "currency": quote["money"]["currency"],
        "hours_ceiling": quote["hours"]["ceiling"],
    }


def _silent_s(path: Path) -> float:
    """Seconds since the job last wrote something."""
    times = [(path / name).stat().st_mtime for name in SIGNS if (path / name).is_file()]
    return _age(max(times)) if times else 0.0


def _outcome(path: Path, code: int | None) -> Json:
    """How the job ended, in its own words where it left any."""
    if code == 0:
        return {"code": 0, "kind": None, "message": "done"}
    error: Json = {}
    with contextlib.suppress(OSError, ValueError):
        error = json.loads((path / "error.json").read_text(encoding="utf-8"))
    message = error.get("message") or (
        f"ended with exit code {code}" if code else "vanished without an exit code"
    )
    return {"code": code, "kind": error.get("kind"), "message": message}


def _is_driven(run: Run) -> bool:
    """Whether a command works on the run between two jobs, by the locks of the system."""
    for name in (".go.lock", ".train.lock", ".lock"):
        path = run.store.path(name)
        try:
            inode = path.stat().st_ino
            if f":{inode} " in Path("/proc/locks").read_text():
                return True
        except FileNotFoundError:
            # No such lock; or a system without /proc, where the holder's process is asked for.
            if path.is_file() and _is_alive(path.read_text(encoding="utf-8", errors="replace")):
                return True
    return False


def _is_alive(holder: str) -> bool:
    found = re.search(r"process (\d+)", holder)
    if found is None:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(int(found[1]), 0)
        return True
    return False


def one_line(data: Json) -> str:
    """A snapshot in one line."""
    if data["state"] == "idle":
        return "nothing ran yet"
    if data["state"] == "between":
        return "a command is at work between two jobs"
    parts = [str(data["job"])]
    if data["state"] == "ended":
        parts.append(data["outcome"]["message"])
    elif data.get("phase"):
        parts.append(_phase(data))
    if data.get("loss") is not None:
        parts.append(f"loss {data['loss']:.3f}")
    if data.get("validation_loss") is not None:
        parts.append(f"validation loss {data['validation_loss']:.3f}")
    if data["state"] == "running":
        checkpoint = data.get("checkpoint") or {}
        if checkpoint.get("age_s") is not None:
            parts.append(f"{checkpoint['age_s'] / 60:.1f} min at risk")
        if data["silent"]:
            parts.append(f"SILENT for {data['silent_s']:.0f} s")
    return ", ".join(parts)


def _phase(data: Json) -> str:
    if not data["total"] or data["total"] == 1:
        return str(data["phase"])
    return f"{data['phase']} {data['done']:.0f} of {data['total']:.0f}"
