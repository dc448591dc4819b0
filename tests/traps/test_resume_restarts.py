"""A resume that forgets the optimizer, the schedule or the place in the data."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tests.rehearsals import copy_of, judged, said  # noqa: E402
from tunegate import checks, frameworks  # noqa: E402
from tunegate.types import Status  # noqa: E402
from tunegate.worker.emit import Emit  # noqa: E402
from tunegate.worker.rehearse import HALF, Rehearsal  # noqa: E402


def again(rehearsal: Rehearsal, folder: Path, *, forget: str = "", **train: Any) -> Rehearsal:
    """The rehearsal with its second run rehearsed anew by a trainer that forgets something."""
    own = copy_of(rehearsal, folder)
    frozen = own.job["frozen"]
    settings = frozen["settings"]
    other = {**frozen, "settings": {**settings, "train": {**settings["train"], **train}}}
    job = {**own.job, "attempt_dir": str(folder / "again")}
    framework = frameworks.load("native")
    with pytest.raises(KeyboardInterrupt):
        framework.train({**job, "stop_after": HALF}, Emit(folder / "again"))
    saved = folder / f"again/checkpoints/step-{HALF:06d}"
    if forget:
        zero(saved, forget)
    framework.train({**job, "frozen": other, "resume_from": str(saved)}, Emit(folder / "again"))
    return replace(own, halved=folder / "again")


def zero(saved: Path, part: str) -> None:
    """Make a checkpoint whose optimizer starts over, as one without optimizer state does."""
    from safetensors.torch import load_file, save_file

    moments = load_file(saved / "optimizer.safetensors")
    for name, tensor in moments.items():
        if name.startswith(part):
            tensor.zero_()
    save_file(moments, saved / "optimizer.safetensors")
    manifest = json.loads((saved / "manifest.json").read_text())
    data = (saved / "optimizer.safetensors").read_bytes()
    manifest["optimizer.safetensors"] = hashlib.sha256(data).hexdigest()
    (saved / "manifest.json").write_text(json.dumps(manifest))


def test_a_resume_that_forgets_nothing_passes(rehearsed):
    job, rehearsal = rehearsed
    verdict = judged("resume_probe", job, rehearsal)
    assert verdict.status is Status.PASS, said(verdict)
    seen = rehearsal.steps(rehearsal.halved)
    assert [step["step"] for step in seen] == list(range(1, 9))


def test_an_optimizer_that_starts_over_is_seen(rehearsed, tmp_path):
    job, rehearsal = rehearsed
    verdict = judged("resume_probe", job, again(rehearsal, tmp_path / "r", forget=""))
    assert verdict.status is Status.PASS, said(verdict)
    for part in ("step", "exp_avg"):
        verdict = judged("resume_probe", job, again(rehearsal, tmp_path / part, forget=part))
        assert verdict.status is Status.FAIL
        assert "the loss is" in said(verdict) and "adapters differ" in said(verdict)


def test_a_schedule_that_starts_over_is_seen(rehearsed, tmp_path):
    job, rehearsal = rehearsed
    verdict = judged("resume_probe", job, again(rehearsal, tmp_path / "r", warmup_steps=7))
    assert verdict.status is Status.FAIL
    assert "step 5: the learning rate is" in said(verdict)


def test_rows_in_another_order_are_seen(rehearsed, tmp_path):
    job, rehearsal = rehearsed
    verdict = judged("resume_probe", job, again(rehearsal, tmp_path / "r", seed=5))
    assert verdict.status is Status.FAIL
    assert "step 5: the rows are" in said(verdict)


def test_a_resume_that_repeats_steps_is_seen(rehearsed, tmp_path):
    job, rehearsal = rehearsed
    own = copy_of(rehearsal, tmp_path / "r")
    path = own.halved / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], *lines[2:]]) + "\n")
    verdict = judged("resume_probe", job, own)
    assert verdict.status is Status.FAIL
    assert "with a stop: 1 to 8 (9)" in said(verdict)


def test_a_verdict_can_be_given_again(rehearsed):
    job, rehearsal = rehearsed
    assert judged("resume_probe", job, rehearsal) == judged("resume_probe", job, rehearsal)
    assert "resume_probe" in checks.names("machine") and "resume_probe" not in checks.names("host")
