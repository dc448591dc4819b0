"""Runs that are killed and taken up again, and what must come out the same as without a kill.

strike(...)      start `tunegate go`, wait for a moment, kill the driver, its worker or both
outcome(folder)  all that a finished run says, without times
differences(...) where two outcomes differ
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shell import Shell

from tunegate import stages
from tunegate.platforms import local
from tunegate.verbs.run import Run

WHOM = ("driver", "worker", "worker and its shell", "all")
"""Whom kill -9 hits: the command, the process that trains or answers, both."""

TIMED = {"made", "digest", "read", "seconds"}
"""Keys that hold times, or digests over times."""

PROVED = (
    *("steps", "planned_steps", "rows_seen", "tokens", "answer_tokens", "first_loss", "last_loss"),
    *("grad_norm_min", "grad_norm_max", "best", "effect", "losses_finite"),
)
"""What a receipt says beside times."""


@dataclass(frozen=True)
class Kill:
    """One kill -9 that hit."""

    stage: str
    """The first stage that was not done, or what was being written."""
    whom: str
    after_s: float
    """Seconds since the command began."""


def strike(
    shell: Shell, run: Path, *, when: Callable[[], bool], whom: str, look_s: float = 0.001
) -> Kill | None:
    """Run `go` and kill at the moment `when` says; None where it ended well before."""
    began = time.monotonic()
    driver = shell.start("go", run, alone=True)
    while driver.poll() is None and not when():
        time.sleep(look_s)
    if driver.poll() is not None:
        assert driver.returncode == 0, f"go ended with {driver.returncode}"
        return None
    after_s = time.monotonic() - began
    hit = _kill(driver, run, whom)
    # Only now: to look takes longer than the moment lasts.
    return Kill(stage_of(run), hit, round(after_s, 2))


def _kill(driver: subprocess.Popen[bytes], run: Path, whom: str) -> str:
    """Kill; where no worker runs, the driver. Returns who was hit."""
    workers = list(_workers(Run(run).folder))
    if not workers and whom != "driver":
        whom = "driver"
    if whom in ("driver", "all"):
        os.killpg(driver.pid, signal.SIGKILL)
    if whom != "driver":
        for pid in workers:
            for victim in _children(pid) if whom == "worker" else [pid]:
                with contextlib.suppress(ProcessLookupError):
                    (os.kill if whom == "worker" else os.killpg)(victim, signal.SIGKILL)
    driver.wait(timeout=300)
    return whom


def _workers(folder: Path) -> Iterator[int]:
    """Process ids of the jobs of a run that are alive."""
    for handle in folder.rglob("handle.json"):
        if local.poll(handle.parent).running:
            yield int(json.loads(handle.read_text())["pid"])


def _children(pid: int) -> list[int]:
    try:
        return [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def stage_of(run: Path) -> str:
    """The first stage that is not done; where a checkpoint is half written, that."""
    opened = Run(run)
    if any(opened.folder.glob("attempts/*/checkpoints/.*.tmp")):
        return "train, saving"
    stage = stages.next_stage(opened.states())
    return stage.name if stage else "report"


def outcome(run: Path) -> dict[str, Any]:
    """What a finished run holds, without times: part -> content."""
    folder = Run(run).folder
    frozen = _json(folder / "frozen.json")
    found: dict[str, Any] = {"inputs": frozen["digest"]}
    for name in ("report.json", "decision.json", "trained.json"):
        found[name] = timeless(_json(folder / name))
    for path in sorted((folder / "eval").rglob("*.jsonl")):
        if "jobs" not in path.parts:
            found[str(path.relative_to(folder))] = answers(path)
    attempt = folder / "attempts/1"
    receipt = _json(attempt / "receipt.json")
    found["receipt"] = {key: receipt[key] for key in PROVED}
    for path in sorted((attempt / "adapter").iterdir()):
        found[f"adapter/{path.name}"] = hashlib.sha256(path.read_bytes()).hexdigest()
    found["metrics"] = [
        {key: value for key, value in row.items() if key != "t_s"}
        for row in lines(attempt / "metrics.jsonl")
        if "resumed" not in row
    ]
    found["attempts"] = sorted(path.name for path in (folder / "attempts").iterdir())
    found["checkpoints"] = sorted(path.name for path in (attempt / "checkpoints").iterdir())
    found["running"] = list(_workers(folder))
    return found


def answers(path: Path) -> list[list[Any]]:
    """Every line of a file of answers, by id; a row that was answered twice stands there twice."""
    return sorted([row["id"], row["output"], row["finish"], row["tokens"]] for row in lines(path))


def lines(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSONL file of which no line is torn."""
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n"), f"{path.name} ends in a torn line"
    return [json.loads(line) for line in text.splitlines()]


def timeless(value: Any) -> Any:
    """The same without times."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in TIMED}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def differences(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Names of the parts that are not the same, with the first place where they differ."""
    out = []
    for name in sorted(expected.keys() | found.keys()):
        old, new = expected.get(name), found.get(name)
        if old != new:
            out.append(f"{name}: {_first_difference(old, new)}")
    return out


def _first_difference(old: Any, new: Any) -> str:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                return f"{key}: {_first_difference(old.get(key), new.get(key))}"
    if isinstance(old, list) and isinstance(new, list):
        for place, (one, two) in enumerate(zip(old, new, strict=False)):
            if one != two:
                return f"[{place}] {_first_difference(one, two)}"
        return f"{len(old)} items became {len(new)}"
    return f"{old!r} became {new!r}"


def _json(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
