"""A rehearsal on a toy base, made once, and copies of it for a test to break."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.tiny_run import make_base, make_job
from tunegate import checks, frameworks
from tunegate.types import Verdict
from tunegate.worker.emit import Emit
from tunegate.worker.feed import trained_examples
from tunegate.worker.rehearse import Rehearsal, rehearse


def make_rehearsal(folder: Path, **train: Any) -> tuple[dict[str, Any], Rehearsal]:
    """A job on a toy base and its rehearsal; keywords replace keys of `settings.train`."""
    job = make_job(folder / "job", make_base(folder / "base"), **train)
    rows = trained_examples(job, "train")
    return job, rehearse(job, rows, folder / "rehearsal", Emit(folder / "emit"))


def copy_of(rehearsal: Rehearsal, folder: Path) -> Rehearsal:
    """The same on files of its own."""
    source = rehearsal.straight.parent
    shutil.copytree(source, folder)
    moved = {
        name: folder / getattr(rehearsal, name).relative_to(source)
        for name in ("base_dir", "straight", "halved", "half_adapter", "row_by_row")
    }
    return replace(rehearsal, **moved)


def machine_inputs(
    job: dict[str, Any], rehearsal: Rehearsal, **measured: Any
) -> checks.CheckInputs:
    """What a check of the machine looks at; keywords replace what the wire test measured."""
    first = rehearsal.steps(rehearsal.straight)[0]
    return checks.CheckInputs(
        frozen=job["frozen"],
        framework=frameworks.load("native"),
        job=job,
        rehearsal=rehearsal,
        wire={
            "first_step": {"rows": first["row_ids"], "loss": first["loss"]},
            "base_dir": str(rehearsal.base_dir),
            "longest": {
                "rows": 3,
                "tokens": 60,
                "peak_memory_gib": 0.5,
                "device_memory_gib": 4.0,
            },
            **measured,
        },
    )


def judged(name: str, job: dict[str, Any], rehearsal: Rehearsal, **measured: Any) -> Verdict:
    """The verdict of a check of the machine, from its evidence as stored."""
    inputs = machine_inputs(job, rehearsal, **measured)
    observation = json.loads(json.dumps(checks.load(name).observe(inputs)))
    return checks.load(name).judge(observation, job["frozen"])


def said(verdict: Verdict) -> str:
    """All that a verdict found, as one text."""
    return "\n".join(finding.message for finding in verdict.findings)
