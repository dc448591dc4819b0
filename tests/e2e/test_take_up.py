"""A training that is taken up again: from whole checkpoints only, with every second counted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from kills import lines  # noqa: E402
from tiny_run import make_base, make_job, put_job  # noqa: E402

from tunegate import quote  # noqa: E402
from tunegate.worker import checkpoint  # noqa: E402
from tunegate.worker.main import main  # noqa: E402


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "tiny")


def job_of(folder: Path, base: Path, **train: Any) -> dict[str, Any]:
    job = make_job(folder, base, **train)
    job["frozen"]["settings"]["train"]["lora"]["dropout"] = 0.1  # so that the generators matter
    return job


@pytest.fixture(scope="module")
def whole(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    assert main(str(put_job(job_of(folder, base), folder / "attempt"))) == 0
    return folder / "attempt"


def receipt_of(attempt: Path) -> dict[str, Any]:
    return dict(json.loads((attempt / "receipt.json").read_text()))


def cut(whole: Path, target: Path) -> Path:
    """The attempt as a kill after its last checkpoint leaves it."""
    shutil.copytree(whole, target)
    (target / "receipt.json").unlink()
    shutil.rmtree(target / "adapter")
    return target


def take_up(attempt: Path, base: Path, *, step: int | None) -> None:
    """Run the job again, told to go on from the checkpoint of `step`."""
    job = job_of(attempt.parent, base)
    named = attempt / "checkpoints" / checkpoint.name_of(step) if step else None
    assert main(str(put_job({**job, "resume_from": named and str(named)}, attempt))) == 0


def is_same(attempt: Path, whole: Path) -> bool:
    steps = [row["step"] for row in lines(attempt / "metrics.jsonl") if "loss" in row]
    weights = [a / "adapter/adapter_model.safetensors" for a in (attempt, whole)]
    return steps == list(range(1, 9)) and weights[0].read_bytes() == weights[1].read_bytes()


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_spoilt_checkpoint_is_passed_over_for_the_one_before(
    base: Path, whole: Path, tmp_path: Path
) -> None:
    attempt = cut(whole, tmp_path / "attempt")
    flip(attempt / "checkpoints/step-000008/optimizer.safetensors")
    take_up(attempt, base, step=8)
    assert is_same(attempt, whole)
    resumed = [row for row in lines(attempt / "metrics.jsonl") if "resumed" in row]
    assert [row["step"] for row in resumed] == [6]


@pytest.mark.parametrize("how", ["spoilt", "deleted"])
def test_without_a_whole_checkpoint_it_begins_anew(
    base: Path, whole: Path, tmp_path: Path, how: str
) -> None:
    attempt = cut(whole, tmp_path / "attempt")
    if how == "deleted":
        shutil.rmtree(attempt / "checkpoints")
    else:
        for folder in (attempt / "checkpoints").iterdir():
            (folder / "manifest.json").write_text("{")
    take_up(attempt, base, step=None if how == "deleted" else 8)
    assert is_same(attempt, whole)


def test_torn_lines_are_forgotten(base: Path, whole: Path, tmp_path: Path) -> None:
    attempt = cut(whole, tmp_path / "attempt")
    for name in ("metrics.jsonl", "checkpoints.jsonl"):
        with (attempt / name).open("ab") as handle:
            handle.write(b'{"step": 9, "lo')
    take_up(attempt, base, step=6)
    assert is_same(attempt, whole)
    assert len(lines(attempt / "checkpoints.jsonl")) == len(lines(whole / "checkpoints.jsonl"))


def test_the_seconds_of_every_process_count(base: Path, whole: Path, tmp_path: Path) -> None:
    attempt = cut(whole, tmp_path / "attempt")
    with (attempt / "metrics.jsonl").open("a") as handle:
        handle.write(json.dumps({"step": 8, "t_s": 1000.0, "loss": 1.0, "grad_norm": 1.0}) + "\n")
    take_up(attempt, base, step=6)  # steps 7 and 8 are lost, and their time was spent
    once = receipt_of(attempt)["train_s"]
    assert 1000 < once < 1000 + 60
    times = [row["t_s"] for row in lines(attempt / "metrics.jsonl")]
    assert times == sorted(times)
    take_up(cut(attempt, tmp_path / "again"), base, step=8)
    assert once < receipt_of(tmp_path / "again")["train_s"] < once + 60


def test_bf16_goes_on_to_the_same_bits(base: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    job = job_of(tmp_path, base, precision="bf16")
    assert main(str(put_job(job, whole))) == 0
    attempt = cut(whole, tmp_path / "attempt")
    named = attempt / "checkpoints/step-000006"
    assert main(str(put_job({**job, "resume_from": str(named)}, attempt))) == 0
    assert is_same(attempt, whole)


def test_checkpoints_come_more_often_where_steps_take_longer_than_quoted(
    base: Path, tmp_path: Path
) -> None:
    """The quote says one an hour; what is measured here leaves no step at risk at all."""
    job = job_of(tmp_path, base)
    job["frozen"]["settings"]["limits"]["minutes_at_risk"] = 0.0
    assert main(str(put_job(job, tmp_path / "attempt"))) == 0
    listed = lines(tmp_path / "attempt/checkpoints.jsonl")
    assert [row["step"] for row in listed if row["validation_loss"] is None] == list(range(1, 9))


def test_quote_and_trainer_keep_the_same_number_of_checkpoints() -> None:
    assert quote.KEPT == checkpoint.KEPT
