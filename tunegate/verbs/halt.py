"""To stop what runs, and to go on."""

from __future__ import annotations

from pathlib import Path

from tunegate import platforms
from tunegate.drive import STOP_GRACE_S, Show, no_show
from tunegate.errors import UsageError
from tunegate.platforms import Host
from tunegate.verbs.run import Result, Run
from tunegate.verbs.train import last_checkpoint, train


def stop(run: str | Path, *, show: Show = no_show) -> Result:
    """Stop the training that runs; what is saved is kept, and `resume` goes on."""
    opened = Run(run, show=show)
    found = running_job(opened)
    if found is None:
        return Result(
            "stop", opened.argument, "nothing is running", {"stopped": False}, opened.next()
        )
    host, job_dir = found
    host.stop(job_dir, grace_s=STOP_GRACE_S)
    if job_dir.parent.name != "attempts":
        return Result(
            "stop",
            opened.argument,
            f"stopped {job_name(job_dir)}; `tunegate go` takes it up again",
            {"stopped": True, "checkpoint": None},
            (f"tunegate go {opened.argument}",),
        )
    last = last_checkpoint(job_dir)
    kept = f"the last checkpoint is {Path(last).name}" if last else "nothing was saved yet"
    return Result(
        "stop",
        opened.argument,
        f"stopped {job_name(job_dir)}; {kept}",
        {"stopped": True, "checkpoint": last},
        (f"tunegate resume {opened.argument}",),
    )


def resume(run: str | Path, *, show: Show = no_show) -> Result:
    """Go on from the last complete checkpoint: the same batches, in the same order."""
    opened = Run(run, show=show)
    if not opened.store.attempts():
        raise UsageError(
            "nothing was trained yet, so nothing can go on",
            hint=f"tunegate go {opened.argument} starts it",
        )
    done = opened.store.digest("trained.json")
    found = train(run, show=show)
    if done is not None and done == opened.store.digest("trained.json"):
        return Result(
            "resume", found.run, f"nothing to resume: {found.summary}", found.data, found.next
        )
    return Result("resume", found.run, found.summary, found.data, found.next)


def running_job(run: Run) -> tuple[Host, Path] | None:
    """The host and the folder of the job that runs now: training, wire test, or answers."""
    for host, folder in jobs(run):
        if host.poll(folder).running:
            return host, folder
    return None


def jobs(run: Run) -> list[tuple[Host, Path]]:
    """Every job of the run, the newest training attempt first."""
    local = platforms.load("local")
    found = [run.store.path("evidence/wire"), run.store.path("evidence/wire-tiny")]
    answers = run.store.path("eval/jobs")
    found += sorted(path for path in answers.iterdir() if path.is_dir()) if answers.is_dir() else []
    attempts = [run.store.path(f"attempts/{number}") for number in run.store.attempts()]
    host = platforms.load(_platform(run))
    trains = [(host, path) for path in reversed(attempts)]
    return trains + [(local, path) for path in found if path.is_dir()]


def _platform(run: Run) -> str:
    """The run's platform. What was frozen may be broken by now, and what runs must be found."""
    try:
        return str(run.frozen["settings"]["platform"])
    except UsageError:
        return "local"


def job_name(folder: Path) -> str:
    """How a job is called in a sentence."""
    if folder.parent.name == "attempts":
        return f"attempt {folder.name}"
    wire = folder.name.startswith("wire")
    return "the wire test" if wire else f"the evaluation ({folder.name})"
