"""The framework's batches for gate 2, built in the framework's own Python where it has one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tunegate import drive, frameworks, platforms
from tunegate.types import Example, Json
from tunegate.verbs.run import Run, cache_dir
from tunegate.worker import batches

if TYPE_CHECKING:
    from tunegate.checks import Batches


@dataclass(frozen=True)
class _Elsewhere:
    """A framework that runs in another Python: its batches come by a worker job and a file."""

    run: Run
    job_dir: Path
    python: str

    def batches(self, job: Json) -> Iterator[list[Example]]:
        """As the framework's own `batches`. Raises what the job raises."""
        wanted = {**job, "kind": "batches", "attempt_dir": str(self.job_dir)}
        host = platforms.load("local")
        (self.job_dir / batches.FILE).unlink(missing_ok=True)
        drive.run(
            host, self.job_dir, wanted, python=self.python, cache_dir=cache_dir(),
            show=self.run.show,
        )  # fmt: skip
        yield from batches.read(self.job_dir)


@contextmanager
def batches_of(run: Run, job: Json) -> Iterator[Batches]:
    """The framework of the run as the checks look at it; what it wrote for them is removed."""
    name = job["frozen"]["settings"]["train"]["framework"]
    if run.environment is None:
        yield frameworks.load(name)
        return
    job_dir = run.store.path("evidence/batches")
    try:
        yield _Elsewhere(run, job_dir, run.trainer_python)
    finally:
        (job_dir / batches.FILE).unlink(missing_ok=True)
