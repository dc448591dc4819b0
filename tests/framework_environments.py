"""The real environment of a framework for tests: made once a machine, in the user's own cache."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tunegate import environments
from tunegate.errors import PlatformError
from tunegate.verbs.run import cache_dir

REPOSITORY = Path(__file__).resolve().parent.parent
ENTRY = "import sys; from tunegate.worker.main import main; sys.exit(main(sys.argv[1]))"


def python_of(framework: str) -> str:
    """The framework's Python; the test skips, with the reason, where it cannot be fetched."""
    pytest.importorskip("torch", reason="torch is not installed")
    try:
        return str(environments.ensure(framework, cache_dir=cache_dir()))
    except PlatformError as error:
        if "cannot be fetched" not in error.message:
            raise
        pytest.skip(f"the environment of {framework} cannot be made: {error.message[:200]}")


def start_job(python: str, job_path: Path, *, plugins: Path | None = None) -> subprocess.Popen[str]:
    """The worker on a job, in a Python of our choice, its log beside the job."""
    paths = [str(path) for path in (REPOSITORY, plugins) if path is not None]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "OMP_WAIT_POLICY": "PASSIVE",
        "HF_HUB_OFFLINE": "1",
    }
    with (job_path.parent / "log").open("a") as log:
        return subprocess.Popen(
            [python, "-W", "ignore", "-c", ENTRY, str(job_path)],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, text=True,
        )  # fmt: skip


def run_job(python: str, job_path: Path, *, plugins: Path | None = None) -> int:
    """Run a job to its end; its exit code."""
    with start_job(python, job_path, plugins=plugins) as process:
        code = process.wait(timeout=240)
    if code:
        sys.stderr.write((job_path.parent / "log").read_text()[-3000:])
    return code
