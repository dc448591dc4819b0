"""This machine: CPU, or the GPUs that it has. Costs nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunegate.errors import PlatformError, boundary
from tunegate.platforms import JobState
from tunegate.types import Offer

PROVED = "live"

# The shell waits for a line before it starts the job: where the driver dies before it has written
# down which process this is, the line never comes, and no job runs that nobody knows of. It lives
# through a polite stop, since the job still saves then. It writes the exit code last and by rename,
# so that a code that is there is the whole truth even when the driver is gone.
_WRAPPER = (
    'read -r _ || exit 1; trap : TERM; "$@" >>"$TUNEGATE_JOB/log" 2>&1 </dev/null; code=$?; '
    'echo "$code" >"$TUNEGATE_JOB/exit.tmp" && mv "$TUNEGATE_JOB/exit.tmp" "$TUNEGATE_JOB/exit"'
)


def offer(*, at: str, folder: Path) -> Offer:
    """One's own machine at no price."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    return Offer(
        platform="local",
        device=f"{cores} CPU core{'s' if cores > 1 else ''}",
        price_per_h="0",
        currency="USD",
        source="own machine",
        at=at,
        memory_gib=_memory_gib(),
        disk_free_gib=round(shutil.disk_usage(folder).free / 2**30, 1),
    )


def _memory_gib() -> float | None:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None
    return round(total / 2**30, 1)


def launch(job_dir: Path, command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Start the job in a process session of its own."""
    with boundary(PlatformError, "start the job"):
        job_dir.mkdir(parents=True, exist_ok=True)
        (job_dir / "exit").unlink(missing_ok=True)
        gate, key = os.pipe()
        try:
            pid = _spawn(job_dir, command, environment, gate=gate)
            handle = {"pid": pid, "started": _start_time(pid)}
            temporary = job_dir / "handle.tmp"
            temporary.write_text(json.dumps(handle))
            temporary.replace(job_dir / "handle.json")
            os.write(key, b"start\n")
        finally:
            os.close(gate)
            os.close(key)


def _spawn(
    job_dir: Path, command: Sequence[str], environment: Mapping[str, str], *, gate: int
) -> int:
    """Start the wrapper, which reads `gate`; returns its process id.

    Not by subprocess: the job outlives this process, and a Popen complains when it is let go.
    """
    return os.posix_spawn(
        "/bin/sh",
        ["/bin/sh", "-c", _WRAPPER, "tunegate-job", *command],
        {**os.environ, **environment, "TUNEGATE_JOB": str(job_dir)},
        file_actions=[
            (os.POSIX_SPAWN_DUP2, gate, 0),
            *((os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0o600) for number in (1, 2)),
        ],
        setsid=True,
    )


def poll(job_dir: Path) -> JobState:
    """Read the exit file, else look for the very process that was started."""
    code = _exit_code(job_dir)
    if code is not None:
        _reap(job_dir)
        return JobState(running=False, exit_code=code)
    if _is_alive(job_dir):
        return JobState(running=True, exit_code=None)
    # The exit file may have appeared between the two looks.
    return JobState(running=False, exit_code=_exit_code(job_dir))


def stop(job_dir: Path, *, grace_s: float = 10.0) -> None:
    """TERM to the process group, KILL after `grace_s`."""
    handle = _handle(job_dir)
    if handle is None or not _is_alive(job_dir):
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(handle["pid"]), number)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            if not _is_alive(job_dir):
                return
            time.sleep(0.05)


def _exit_code(job_dir: Path) -> int | None:
    try:
        return int((job_dir / "exit").read_text())
    except (OSError, ValueError):
        return None


def _handle(job_dir: Path) -> dict[str, float] | None:
    try:
        found = json.loads((job_dir / "handle.json").read_text())
    except (OSError, json.JSONDecodeError):
        return None
    return dict(found)


def _reap(job_dir: Path) -> None:
    handle = _handle(job_dir)
    if handle is not None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(int(handle["pid"]), os.WNOHANG)


def _is_alive(job_dir: Path) -> bool:
    """Whether the process of the handle runs; a recycled process id has another start time."""
    handle = _handle(job_dir)
    if handle is None:
        return False
    pid = int(handle["pid"])
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(pid, os.WNOHANG)[0] == pid:
            return False
    started = _start_time(pid)
    return started is not None and started == handle["started"]


def _start_time(pid: int) -> float | None:
    """Start time of a process in clock ticks since boot; on systems without /proc, 0 while it
    lives.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        if Path("/proc/self/stat").exists():
            return None
        try:
            os.kill(pid, 0)
        except (ProcessLookupError, PermissionError):
            return None
        return 0.0
    return None if fields[0] == "Z" else float(fields[19])


def memory_gib(job_dir: Path) -> float | None:
    """Resident memory of the job's process group, in GiB; None on systems without /proc."""
    handle = _handle(job_dir)
    if handle is None or not Path("/proc/self/statm").exists():
        return None
    pages = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        # A process may end between being listed and being read.
        with contextlib.suppress(OSError, IndexError, ValueError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if int(fields[2]) == int(handle["pid"]):
                pages += int(fields[21])
    return round(pages * os.sysconf("SC_PAGE_SIZE") / 2**30, 3)
