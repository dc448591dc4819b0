"""What a worker tells the driver: lines and small files in the attempt's folder."""

from __future__ import annotations

import errno
import json
import os
import time
from datetime import datetime, timezone
from pathlib import Path

from tunegate.types import Json

PROGRESS_EVERY_S = 0.5

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says where a file cannot grow."""

NOT_ALLOWED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""What it says where this user may not write."""


def now_iso() -> str:
    """The time of the machine's clock, UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")  # noqa: UP017 - worker code


def write_durably(path: Path, data: bytes) -> None:
    """Write by temporary name, flush to the disk, rename: complete, or not there."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


def write_json(path: Path, value: Json) -> None:
    """As `write_durably`, a JSON object."""
    write_durably(path, json.dumps(value, ensure_ascii=False, indent=1).encode())


class Emit:
    """Appends lines and keeps `progress.json` fresh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        self._spent: dict[str, tuple[float, float]] = {}
        """Seconds and units of each phase."""
        self._last = ("", 0.0, 0.0)
        """Phase, time and `done` of the last call."""
        self._shown = 0.0

    @property
    def t_s(self) -> float:
        """Seconds that the job took so far, those of earlier processes included if told."""
        return round(time.monotonic() - self.began, 3)

    def count_from(self, spent_s: float) -> None:
        """Go on counting from the seconds that earlier processes of the same job took."""
        self.began -= spent_s

    def line(self, name: str, value: Json, *, sync: bool = False) -> None:
        """Append one JSON line to a file of the folder; `sync` waits for the disk."""
        with (self.folder / name).open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(value, ensure_ascii=False) + "\n")
            if sync:
                handle.flush()
                os.fsync(handle.fileno())

    def metric(self, value: Json) -> None:
        """Append to metrics.jsonl; `t_s` is added."""
        self.line("metrics.jsonl", {"step": value["step"], "t_s": self.t_s, **value})

    def log(self, text: str) -> None:
        """A line of the log, which is the worker's standard output."""
        print(f"[{self.t_s:8.1f}s] {text}", flush=True)  # noqa: T201 - the log is the worker's stdout

    def progress(
        self, phase: str, done: float, total: float, *, loss: float | None = None, rows: int = 1
    ) -> None:
        """Show how far a phase is, at most twice a second; a unit of `done` holds `rows` rows.

        A phase may be left and taken up again: its rate counts the time spent in it alone.
        """
        now = time.monotonic()
        spent_s, units = self._spent.get(phase, (0.0, 0.0))
        if phase == self._last[0]:
            spent_s, units = spent_s + now - self._last[1], units + done - self._last[2]
            self._spent[phase] = (spent_s, units)
        fresh = phase != self._last[0]
        self._last = (phase, now, done)
        if not fresh and done < total and now - self._shown < PROGRESS_EVERY_S:
            return
        self._shown = now
        rate = units / spent_s if units > 0 and spent_s > 0 else None
        value = {
            "phase": phase,
            "done": done,
            "total": total,
            "loss": None if loss is None else round(loss, 4),
            "rows_per_s": None if rate is None else round(rate * rows, 2),
            "eta_s": None if rate is None else round((total - done) / rate, 1),
        }
        path = self.folder / "progress.json"
        temporary = path.with_name(".progress.json.tmp")
        temporary.write_text(json.dumps(value))  # no flush: it is for watching, not for resuming
        temporary.replace(path)
