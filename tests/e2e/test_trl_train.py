"""TRL as the trainer: real processes in its own environment, on models made on the spot."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from framework_environments import python_of, run_job, start_job
from shell import Shell, read, wait_for
from tiny_run import make_base, make_job, put_job
from toys import write_rows
from toys_model import make_base as make_trained_base
from toys_model import make_run

from tunegate.verbs.run import cache_dir
from tunegate.worker.main import main


@pytest.fixture(scope="module")
def python() -> str:
    return python_of("trl")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """8 steps with dropout, so that the generators matter to a resume."""
    folder = tmp_path_factory.mktemp("rows")
    found = make_job(folder, make_base(folder / "base"), framework="trl", warmup_steps=0)
    found["frozen"]["settings"]["train"]["lora"]["dropout"] = 0.1
    return found


@pytest.fixture(scope="module")
def straight(python: str, job: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    attempt = tmp_path_factory.mktemp("straight") / "1"
    assert run_job(python, put_job(job, attempt)) == 0
    return attempt


def receipt_of(attempt: Path) -> dict[str, Any]:
    return dict(json.loads((attempt / "receipt.json").read_text()))


def metrics_of(attempt: Path) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in (attempt / "metrics.jsonl").read_text().splitlines()]
    return [
        {key: value for key, value in row.items() if key != "t_s"}
        for row in rows
        if "resumed" not in row
    ]


def test_the_first_step_is_that_of_the_native_trainer(
    straight: Path, job: dict[str, Any], tmp_path: Path
) -> None:
    train = job["frozen"]["settings"]["train"]
    ours = {**job["frozen"]["settings"], "train": {**train, "framework": "native"}}
    native = {**job, "frozen": {**job["frozen"], "settings": ours}}
    assert main(str(put_job(native, tmp_path / "native"))) == 0
    first, here = metrics_of(straight)[0], metrics_of(tmp_path / "native")[0]
    assert {k: first[k] for k in ("step", "tokens", "rows", "learning_rate")} == {
        k: here[k] for k in ("step", "tokens", "rows", "learning_rate")
    }
    # The same rows and the same fresh adapter, whose B is zero: dropout does not matter yet.
    assert first["loss"] == pytest.approx(here["loss"], rel=1e-5)
    ends = receipt_of(straight), receipt_of(tmp_path / "native")
    assert set(ends[0]) == set(ends[1])
    assert all(ends[0][k] == ends[1][k] for k in ("steps", "rows_seen", "tokens", "answer_tokens"))
    assert ends[0]["effect"]["changed"] == ends[0]["effect"]["probes"] == 8
    assert ends[0]["environment"]["trl"] == "1.16.0"


def test_a_killed_training_resumes_to_the_same_bytes(
    python: str, straight: Path, job: dict[str, Any], tmp_path: Path
) -> None:
    attempt = tmp_path / "1"
    # Killed in the second epoch, in the middle of it.
    process = start_job(python, put_job(job, attempt))
    listed = attempt / "checkpoints.jsonl"
    deadline = time.monotonic() + 200
    while process.poll() is None and time.monotonic() < deadline:
        if listed.is_file() and '"step": 6' in listed.read_text():
            process.kill()
        time.sleep(0.002)
    process.wait(timeout=60)
    steps = [json.loads(line)["step"] for line in listed.read_text().splitlines()]
    folders = [attempt / f"checkpoints/step-{step:06d}" for step in steps]
    last = [folder for folder in folders if folder.is_dir()][-1]
    assert run_job(python, put_job({**job, "resume_from": str(last)}, attempt)) == 0
    assert "goes on after step" in (attempt / "log").read_text()
    assert receipt_of(attempt)["adapter"]["sha256"] == receipt_of(straight)["adapter"]["sha256"]
    assert metrics_of(attempt) == metrics_of(straight)
    assert len(list((attempt / "checkpoints").iterdir())) <= 2


@pytest.mark.slow
def test_a_whole_run_goes_to_its_report_through_a_kill(python: str, tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    shell.environment["TUNEGATE_CACHE"] = str(cache_dir())
    base = make_trained_base(tmp_path / "base")
    run = tmp_path / "run"
    run.mkdir()
    make_run(run, base, train={"framework": "trl"})
    driver = shell.start("go", run)
    metrics = run / "attempts/1/metrics.jsonl"
    wait_for(lambda: metrics.exists() and metrics.read_bytes().count(b"\n") >= 8, seconds=280)
    handle = json.loads((run / "attempts/1/handle.json").read_text())
    os.killpg(handle["pid"], signal.SIGKILL)
    driver.kill()
    driver.wait()
    assert not (run / "trained.json").exists()
    shell.run("go", run)
    assert read(run, "frozen.json")["trainer"]["packages"]["trl"] == "1.16.0"
    native = read(run, "evidence/dry_run.json")["native"]
    assert native["SFTConfig"]["report_to"] == "none"
    assert "SFTConfig:" in (run / "attempts/1/trl.yaml").read_text()
    assert read(run, "record.json")["training"]["receipt"]["steps"] == 24
    assert "<html" in (run / "report.html").read_text()


def test_a_setting_that_trl_is_not_driven_with_is_refused_when_frozen(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    run = tmp_path / "run"
    run.mkdir()
    make_run(run, make_base(tmp_path / "base"), train={"framework": "trl", "precision": "fp16"})
    body = shell.run("freeze", run, code=2)
    assert "with trl it is fp32 or bf16" in body["error"]["message"]
    assert not (run / "frozen.json").exists()


def test_a_text_column_closes_gate_2(python: str, tmp_path: Path) -> None:
    """The whole text would be trained, the prompt included."""
    shell = Shell(tmp_path)
    shell.environment["TUNEGATE_CACHE"] = str(cache_dir())
    run = tmp_path / "run"
    run.mkdir()
    make_run(run, make_base(tmp_path / "base"), train={"framework": "trl"})
    rows = [json.loads(line) for line in (run / "train.jsonl").read_text().splitlines()]
    for row in rows:
        row["text"] = f"{row['prompt']} {row['completion']}"
    write_rows(run / "train.jsonl", rows)
    body = shell.run("check", run, code=3)
    assert body["error"]["kind"] == "check_failed"
    verdict = read(run, "evidence/mask_exact.json")["verdict"]
    assert verdict["status"] == "fail" and verdict["numbers"]["rows_wrong"] == len(rows)
    assert not list((run / "evidence/batches").glob("*.jsonl"))
