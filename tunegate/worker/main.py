"""The worker's entry: one job file in, results beside it, tunegate's exit codes out.

python -c "... from tunegate.worker.main import main; sys.exit(main(sys.argv[2]))" ... job.json
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from tunegate import frameworks
from tunegate.errors import (
    EXIT_INTERRUPTED,
    ChangedSinceRelease,
    TrainerError,
    TunegateError,
    UsageError,
)
from tunegate.types import Json
from tunegate.worker.emit import NO_SPACE, NOT_ALLOWED, Emit, write_json

MEMORY_WORDS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
)


def main(job_path: str | None = None) -> int:
    """Run the job of a file; returns the exit code, and leaves `error.json` beside it."""
    path = Path(job_path or sys.argv[1]).absolute()
    error_path = path.parent / "error.json"
    try:
        job = json.loads(path.read_text(encoding="utf-8"))
        emit = Emit(path.parent)
        _prepare(job, emit)
        _kind(job)(job, emit)
    except KeyboardInterrupt:
        _explain(error_path, TunegateError("the job was told to stop", kind="interrupted"))
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one place where a worker's errors end
        known = _named(error)
        _explain(error_path, known)
        with contextlib.suppress(OSError):  # the log may lie on the disk that is full
            traceback.print_exc()
        return known.exit_code
    return 0


def _kind(job: Json) -> Callable[[Json, Emit], None]:
    from tunegate.worker import batches, generate, probe, wire

    kinds: dict[str, Callable[[Json, Emit], None]] = {
        "train": _train,
        "batches": batches.write,
        "wire": wire.wire,
        "generate": generate.run,
        "probe": lambda job, emit: write_json(
            Path(job["attempt_dir"]) / "probe.json", probe.machine()
        ),
    }
    if job["kind"] not in kinds:
        raise UsageError(f"no job is of kind {job['kind']!r}; known: {', '.join(kinds)}")
    return kinds[job["kind"]]


def _train(job: Json, emit: Emit) -> None:
    frameworks.load(job["frozen"]["settings"]["train"]["framework"]).train(job, emit)


def _prepare(job: Json, emit: Emit) -> None:
    """Offline, quiet, on the threads that the job names, and the archive that was sent."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if os.environ.get("OMP_WAIT_POLICY", "").upper() != "PASSIVE":
        emit.log("OMP_WAIT_POLICY is not PASSIVE: idle threads spin, and neighbours suffer")
    expected, found = job.get("worker_sha256"), archive_sha256()
    if expected and found and expected != found:
        raise ChangedSinceRelease(f"the worker's archive is {found[:12]}, not {expected[:12]}")
    import torch

    torch.set_num_threads(int(job.get("threads") or torch.get_num_threads()))


def archive_sha256() -> str | None:
    """Digest of the archive that this code runs from; None where it runs from a folder."""
    head, mark, _ = __file__.partition(".zip" + os.sep)
    return hashlib.sha256(Path(head + ".zip").read_bytes()).hexdigest() if mark else None


def _named(error: Exception) -> TunegateError:
    """A foreign error as ours."""
    if isinstance(error, TunegateError):
        return error
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, MemoryError) or any(word in text.lower() for word in MEMORY_WORDS):
        return TrainerError(
            text.splitlines()[0],
            kind="out_of_memory",
            hint="lower train.batch_size or train.max_length, then run the same command again",
        )
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        return TrainerError(
            text,
            kind="disk_full",
            hint="make room, then run the same command again: it goes on from the last checkpoint",
        )
    if isinstance(error, OSError) and error.errno in NOT_ALLOWED:
        return TrainerError(
            text,
            kind="not_writable",
            hint="give this user the right to read and write there, then run the same command",
        )
    if isinstance(error, ImportError):
        return UsageError(
            text,
            kind="extra_missing",
            hint="pip install torch==2.13.0 && pip install 'tunegate[train]'",
        )
    return TrainerError(text)


def _explain(path: Path, error: TunegateError) -> None:
    try:
        write_json(path, error.to_json())
    except OSError:  # a full disk: the exit code and the log still tell
        with contextlib.suppress(OSError):
            print(f"error: {error}", flush=True)  # noqa: T201 - the log is the worker's stdout
