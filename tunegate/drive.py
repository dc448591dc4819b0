"""Run one worker job on a platform: bundle, launch, watch, and turn its end into a value or an
error.

The job is a folder. The driver may die at any moment: whoever comes next polls the same folder and
goes on, so nothing here keeps state of its own.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tunegate
from tunegate import errors
from tunegate.errors import (
    EXIT_INTERRUPTED,
    BudgetReached,
    PlatformError,
    TrainerError,
    TunegateError,
    boundary,
)
from tunegate.platforms import Host
from tunegate.store import write_atomic
from tunegate.types import Json

POLL_S = 0.25
LOG_TAIL_LINES = 12
STOP_GRACE_S = 60.0
"""A job that is told to stop ends its step and saves; after this it is killed."""
TERMINATED = 128 + 15
"""Exit code of a process that a polite stop ended before it could save by itself."""
FULL_BYTES = 64 * 1024
"""With less room than this a job cannot leave an error behind."""

_ENTRY = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tunegate.worker.main import main; sys.exit(main(sys.argv[2]))"
)

_CLASS_BY_CODE: dict[int, type[TunegateError]] = {
    2: errors.UsageError,
    3: errors.GateClosed,
    5: errors.ChangedSinceRelease,
    6: errors.BudgetReached,
    7: errors.PlatformError,
    8: errors.NothingTrained,
    9: errors.EvalError,
    10: errors.TrainerError,
}


@dataclass(frozen=True)
class Progress:
    """How far a job is, for whoever shows it."""

    phase: str
    done: float = 0
    total: float | None = None
    text: str = ""
    eta_s: float | None = None


Show = Callable[[Progress], None]


def no_show(_: Progress) -> None:
    """For callers that show nothing."""


def bundle_worker(folder: Path) -> tuple[Path, str]:
    """Write the archive that travels to the machine which trains; its path and SHA-256.

    It holds `worker/`, `frameworks/`, `checks/` and what they import, with fixed times and order,
    so the same code is the same archive everywhere.
    """
    root = Path(tunegate.__file__).parent
    with boundary(
        PlatformError,
        f"write the worker's archive to {folder}",
        hint="name a folder that can be written in TUNEGATE_CACHE",
    ):
        return _bundle(root, folder)


def _bundle(root: Path, folder: Path) -> tuple[Path, str]:
    wanted = [root / "__init__.py", root / "errors.py", root / "types.py"]
    for part in ("worker", "frameworks", "checks"):
        wanted += sorted((root / part).rglob("*.py"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in wanted:
            name = f"tunegate/{path.relative_to(root).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), path.read_bytes())
    digest = hashlib.sha256(buffer.getvalue()).hexdigest()
    target = folder / f"worker-{digest[:12]}.zip"
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        temporary = target.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_bytes(buffer.getvalue())
        temporary.replace(target)
    return target, digest


def start(host: Host, job_dir: Path, job: Json, *, python: str, cache_dir: Path) -> None:
    """Write `job.json` and launch the worker on it."""
    archive, digest = bundle_worker(cache_dir / "worker")
    write_atomic(
        job_dir / "job.json",
        json.dumps({**job, "worker_sha256": digest}, ensure_ascii=False, indent=1),
    )
    for stale in ("error.json", "progress.json"):
        (job_dir / stale).unlink(missing_ok=True)
    command = [python, "-c", _ENTRY, str(archive), str(job_dir / "job.json")]
    host.launch(job_dir, command, _environment())


def _environment() -> dict[str, str]:
    """Settings that keep a worker quiet, offline and fair to its neighbours."""
    return {
        # Spinning OpenMP threads halve the throughput on shared cores (measured: 38 against 90
        # tokens per CPU second with two busy neighbours).
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "WANDB_MODE": "disabled",
    }


def wait(
    host: Host, job_dir: Path, *, show: Show = no_show, deadline_s: float | None = None
) -> None:
    """Watch the job until it ends well.

    Raises: the error that the worker wrote; TrainerError or PlatformError where it wrote none;
    BudgetReached where `deadline_s` passed (the job is stopped first).
    """
    began = time.monotonic()
    last: str | None = None
    try:
        while (state := host.poll(job_dir)).running:
            last = _show_progress(job_dir, show, last)
            if deadline_s is not None and time.monotonic() - began > deadline_s:
                host.stop(job_dir, grace_s=STOP_GRACE_S)
                raise BudgetReached(
                    f"stopped after {deadline_s / 3600:.2f} h, the ceiling of this run",
                    hint="the last checkpoint is kept; raise limits.hours and release again",
                )
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        host.stop(job_dir, grace_s=STOP_GRACE_S)
        raise
    _show_progress(job_dir, show, last)
    if state.exit_code != 0:
        raise failure(job_dir, state.exit_code)


def _show_progress(job_dir: Path, show: Show, last: str | None) -> str | None:
    try:
        text = (job_dir / "progress.json").read_text()
        raw = json.loads(text)
    except (OSError, json.JSONDecodeError):
        return last
    if text != last:
        show(
            Progress(
                phase=str(raw.get("phase", "")),
                done=float(raw.get("done") or 0),
                total=raw.get("total"),
                text=_progress_text(raw),
                eta_s=raw.get("eta_s"),
            )
        )
    return text


def _progress_text(raw: Mapping[str, Any]) -> str:
    parts = []
    if raw.get("loss") is not None:
        parts.append(f"loss {raw['loss']:.3f}")
    if raw.get("rows_per_s"):
        parts.append(f"{raw['rows_per_s']:.1f} rows/s")
    return ", ".join(parts)


def failure(job_dir: Path, code: int | None) -> TunegateError:
    """The error behind an exit code: the worker's own words where it left any."""
    tail = log_tail(job_dir)
    try:
        raw = json.loads((job_dir / "error.json").read_text())
    except (OSError, json.JSONDecodeError):
        raw = None
    if code in (EXIT_INTERRUPTED, TERMINATED):
        error = TunegateError(
            "the job was told to stop; what is saved is kept",
            kind="interrupted",
            hint="the same command goes on from where it stood",
        )
        error.exit_code = EXIT_INTERRUPTED
        return error
    if raw is None and shutil.disk_usage(job_dir).free < FULL_BYTES:
        return TrainerError(
            "the disk is full, so the job could not even say why it ended",
            kind="disk_full",
            hint="make room, then run the same command again: it goes on from what is saved",
            where=str(job_dir),
        )
    if raw is not None:
        kind = _CLASS_BY_CODE.get(code or 1, TrainerError)
        return kind(
            raw["message"],
            kind=raw.get("kind"),
            hint=raw.get("hint") or f"the log is {job_dir / 'log'}",
            where=raw.get("where"),
        )
    if code is None:
        return PlatformError(
            "the job vanished without an exit code: the machine went down, or it was killed",
            hint="run the same command again; it goes on from the last checkpoint",
            where=str(job_dir),
        )
    if code in (137, -9):
        return TrainerError(
            "the trainer was killed, most likely for want of memory",
            kind="out_of_memory",
            hint="lower train.batch_size or train.max_length, then run the same command again",
            where=str(job_dir / "log"),
        )
    last = "\n".join(tail[-LOG_TAIL_LINES:]) or "(the log is empty)"
    return TrainerError(
        f"the trainer ended with exit code {code}; its last words:\n{last}",
        where=str(job_dir / "log"),
    )


def log_tail(job_dir: Path, *, lines: int = 40) -> list[str]:
    """Last lines of a job's log."""
    path = job_dir / "log"
    if not path.is_file():
        return []
    with path.open("rb") as handle:
        handle.seek(0, os.SEEK_END)
        handle.seek(max(0, handle.tell() - 64_000))
        return handle.read().decode("utf-8", "replace").splitlines()[-lines:]


def run(
    host: Host,
    job_dir: Path,
    job: Json,
    *,
    python: str,
    cache_dir: Path,
    show: Show = no_show,
    deadline_s: float | None = None,
) -> None:
    """Start a job, or attach to the one that already runs in its folder, and wait for its end."""
    if host.poll(job_dir).running and not _is_job(job_dir, job):
        # Left behind by a driver that died, at work on inputs that have changed since.
        host.stop(job_dir, grace_s=5)
    if not host.poll(job_dir).running:
        start(host, job_dir, job, python=python, cache_dir=cache_dir)
    wait(host, job_dir, show=show, deadline_s=deadline_s)


def _is_job(job_dir: Path, job: Json) -> bool:
    """Whether the folder's job is this one."""
    try:
        found = json.loads((job_dir / "job.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    found.pop("worker_sha256", None)
    return bool(found == json.loads(json.dumps(job)))


def read_outputs(path: Path) -> Sequence[Json]:
    """Rows that a generate job wrote; a torn last line is not a row."""
    if not path.is_file():
        return []
    rows = []
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return rows
