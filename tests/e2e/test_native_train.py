"""Whole trainings of a tiny model by the worker: receipt, exact resume, and every way to be cut."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from safetensors.torch import load_file  # noqa: E402
from tiny_run import make_base, make_job, put_job  # noqa: E402

from tunegate import checks  # noqa: E402
from tunegate.worker.feed import labels_sha256, trained_examples  # noqa: E402
from tunegate.worker.main import main  # noqa: E402
from tunegate.worker.model import load_base, load_merged  # noqa: E402
from tunegate.worker.step import mean_loss  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "tiny")


@pytest.fixture(scope="module")
def straight(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The attempt of a run of 8 steps in one go, with dropout so that the generators matter."""
    folder = tmp_path_factory.mktemp("straight")
    attempt = folder / "attempts" / "1"
    assert main(str(put_job(job_of(folder, base), attempt))) == 0
    return attempt


def job_of(folder: Path, base: Path, *, dropout: float = 0.1, **train: Any) -> dict[str, Any]:
    job = make_job(folder, base, **train)
    job["frozen"]["settings"]["train"]["lora"]["dropout"] = dropout
    return job


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def timeless(path: Path) -> list[dict[str, Any]]:
    """Rows without their times, and without the lines that say where a process took up."""
    rows = [row for row in lines(path) if "resumed" not in row]
    return [{k: v for k, v in row.items() if k != "t_s"} for row in rows]


def launch(job_path: Path, **more: Any) -> subprocess.Popen[str]:
    """The worker in a process of its own, as a platform starts it."""
    code = "import sys; from tunegate.worker.main import main; sys.exit(main(sys.argv[1]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, str(job_path)], cwd=REPOSITORY, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}, **more,
    )  # fmt: skip


def error_of(attempt: Path) -> dict[str, Any]:
    return dict(json.loads((attempt / "error.json").read_text()))


def test_the_receipt_proves_the_training(straight: Path, base: Path) -> None:
    receipt = json.loads((straight / "receipt.json").read_text())
    assert receipt["steps"] == receipt["planned_steps"] == 8
    assert receipt["rows_seen"] == 24 and receipt["tokens"] > receipt["answer_tokens"] > 0
    assert receipt["losses_finite"] and receipt["last_loss"] < receipt["first_loss"]
    assert 0 < receipt["grad_norm_min"] <= receipt["grad_norm_max"]
    assert receipt["effect"] == {"probes": 8, "changed": 8}
    assert receipt["adapter"]["changed"] and receipt["adapter"]["b_norm"] > 0
    assert receipt["step_s_median"] > 0 and receipt["save_s_median"] > 0
    assert receipt["peak_memory_gib"] > 0 and receipt["environment"]["torch"]
    validations = {
        row["step"]: row["validation_loss"]
        for row in lines(straight / "metrics.jsonl")
        if "validation_loss" in row
    }
    assert sorted(validations) == [3, 4, 6, 8]  # every 3, and each epoch's end
    best = min(validations, key=lambda step: validations[step])
    assert receipt["best"] == {"step": best, "validation_loss": validations[best]}


def test_the_adapter_is_an_ordinary_one_and_the_best(straight: Path, base: Path) -> None:
    receipt = json.loads((straight / "receipt.json").read_text())
    folder = straight / receipt["adapter"]["path"]
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA" and config["r"] == 4
    assert config["target_modules"] == sorted(config["target_modules"])
    assert config["base_model_name_or_path"] == "tiny"
    held = trained_examples(json.loads((straight / "job.json").read_text()), "validation")
    merged = mean_loss(load_merged(base, folder), held)
    assert merged == pytest.approx(receipt["best"]["validation_loss"], rel=1e-5)
    assert mean_loss(load_base(base), held) > merged + 0.1


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing")  # PEFT's own use of an old name
def test_nobody_needs_our_code_to_load_the_adapter(straight: Path, base: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    peft = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base), straight / "adapter"
    )
    plain = AutoModelForCausalLM.from_pretrained(base)
    plain.load_state_dict(load_merged(base, straight / "adapter").model.state_dict())
    ids = torch.tensor([[5, 8, 13, 21, 34, 55]])
    assert torch.allclose(peft(ids).logits, plain(ids).logits, atol=1e-4)


def test_metrics_have_every_step(straight: Path) -> None:
    steps = [row for row in lines(straight / "metrics.jsonl") if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, 9))
    assert [row["rows"] for row in steps] == [3] * 8
    rates = [row["learning_rate"] for row in steps]
    assert rates[:2] == [2.5e-3, 5e-3] and rates == sorted(rates[:2]) + sorted(rates[2:])[::-1]
    assert rates[-1] > 0


def test_checkpoints_keep_the_last_two_and_the_best(straight: Path) -> None:
    receipt = json.loads((straight / "receipt.json").read_text())
    kept = sorted(path.name for path in (straight / "checkpoints").iterdir())
    best = f"step-{receipt['best']['step']:06d}"
    assert kept == sorted({best, "step-000006", "step-000008"})
    listed = lines(straight / "checkpoints.jsonl")
    assert [row["step"] for row in listed if row["validation_loss"] is None] == [1, 3, 4, 6, 8]
    assert [row["step"] for row in listed if row["validation_loss"] is not None] == [3, 4, 6, 8]


def test_four_and_four_steps_are_eight(base: Path, tmp_path: Path) -> None:
    """Bit for bit, each half in a process of its own, through every file that is compared."""
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    job = {**job_of(tmp_path, base), "threads": 2}
    for attempt, cuts in ((whole, (8,)), (halves, (4, 8))):
        for cut in cuts:
            # The plan stays 8 steps; the first half is cut right after its checkpoint.
            put_job({**job, "resume_from": last_checkpoint(attempt)}, attempt)
            run_until(attempt, step=cut)
    for name in ("adapter_model.safetensors", "optimizer.safetensors", "random.safetensors"):
        one, two = (load_file(a / "checkpoints" / "step-000008" / name) for a in (whole, halves))
        assert one.keys() == two.keys()
        assert all(torch.equal(one[key], two[key]) for key in one), name
    assert timeless(whole / "metrics.jsonl") == timeless(halves / "metrics.jsonl")
    keys = ("first_loss", "last_loss", "rows_seen", "tokens", "best", "grad_norm_max", "effect")
    receipts = [json.loads((a / "receipt.json").read_text()) for a in (whole, halves)]
    assert [receipts[0][key] for key in keys] == [receipts[1][key] for key in keys]
    assert receipts[0]["adapter"]["sha256"] == receipts[1]["adapter"]["sha256"]


def last_checkpoint(attempt: Path) -> str | None:
    found = sorted((attempt / "checkpoints").glob("step-*"))
    return str(found[-1]) if found else None


def run_until(attempt: Path, *, step: int) -> None:
    """Run the worker; kill it, where the step is not the last, as soon as the step is validated."""
    process = launch(attempt / "job.json")
    deadline = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < deadline:
        path = attempt / "metrics.jsonl"
        seen = path.read_text().splitlines() if path.is_file() else []
        done = [line for line in seen if f'"step": {step}' in line and "validation_loss" in line]
        if step < 8 and done:
            process.kill()
            break
        time.sleep(0.002)
    output, _ = process.communicate(timeout=60)
    assert step < 8 or process.returncode == 0, output
    # What was done past the cut is forgotten, as if the machine had died right there.
    for path in (attempt / "checkpoints").iterdir():
        if path.name.startswith(".") or int(path.name.removeprefix("step-")) > step:
            shutil.rmtree(path)


@pytest.mark.slow
def test_kills_while_saving_lose_nothing(base: Path, tmp_path: Path) -> None:
    job = job_of(tmp_path, base, epochs=15, total_steps=60, eval_every_steps=2)
    attempt = tmp_path / "attempt"
    for kills in range(4):
        process = launch(put_job({**job, "resume_from": last_checkpoint(attempt)}, attempt))
        while process.poll() is None and kills < 3:
            if len(saves(attempt)) > 2 + 5 * kills and any((attempt / "checkpoints").glob(".*")):
                process.kill()
            time.sleep(0.0005)
        output, _ = process.communicate(timeout=60)
        assert process.returncode == (-signal.SIGKILL if kills < 3 else 0), output
    steps = [row["step"] for row in lines(attempt / "metrics.jsonl") if "loss" in row]
    assert steps == list(range(1, 61))
    assert json.loads((attempt / "receipt.json").read_text())["rows_seen"] == 180
    assert not list((attempt / "checkpoints").glob(".*"))


def saves(attempt: Path) -> list[str]:
    path = attempt / "checkpoints.jsonl"
    return path.read_text().splitlines() if path.is_file() else []


def test_told_to_stop_saves_and_says_so(base: Path, tmp_path: Path) -> None:
    job = job_of(tmp_path, base, epochs=500, total_steps=2000, eval_every_steps=1000)
    attempt = tmp_path / "attempt"
    process = launch(put_job(job, attempt))
    while process.poll() is None and not (attempt / "metrics.jsonl").is_file():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert error_of(attempt)["kind"] == "interrupted"
    step = lines(attempt / "metrics.jsonl")[-1]["step"]
    assert last_checkpoint(attempt) == str(attempt / "checkpoints" / f"step-{step:06d}")
    assert not (attempt / "receipt.json").exists()


def test_the_worker_keeps_the_ceiling_by_itself(base: Path, tmp_path: Path) -> None:
    """No driver watches here: the job file alone says how long it may train."""
    job = job_of(tmp_path, base, epochs=500, total_steps=2000, eval_every_steps=1000)
    attempt = tmp_path / "attempt"
    assert main(str(put_job({**job, "ceiling_s": 1.0}, attempt))) == 6
    assert error_of(attempt)["kind"] == "budget_reached"
    step = lines(attempt / "metrics.jsonl")[-1]["step"]
    assert 1 <= step < 2000
    assert last_checkpoint(attempt) == str(attempt / "checkpoints" / f"step-{step:06d}")
    assert not (attempt / "receipt.json").exists()
    # What was trained before a resume counts, so that resuming buys no time.
    again = {**job, "ceiling_s": 1.0, "resume_from": last_checkpoint(attempt)}
    assert main(str(put_job(again, attempt))) == 6
    assert lines(attempt / "metrics.jsonl")[-1]["step"] == step + 1


def test_a_ceiling_that_is_not_reached_changes_nothing(base: Path, tmp_path: Path) -> None:
    job = {**job_of(tmp_path, base), "ceiling_s": 3600.0}
    assert main(str(put_job(job, tmp_path / "attempt"))) == 0


def test_a_loss_that_is_not_finite_ends_it(base: Path, tmp_path: Path) -> None:
    attempt = tmp_path / "attempt"
    job = job_of(tmp_path, base, learning_rate=1e30, warmup_steps=0, max_grad_norm=1e9)
    assert main(str(put_job(job, attempt))) == 10
    assert error_of(attempt)["kind"] == "diverged"
    good = load_file(attempt / "checkpoints" / "step-000001" / "adapter_model.safetensors")
    assert all(torch.isfinite(tensor).all() for tensor in good.values())


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="no way to limit another process")
def test_a_full_disk_leaves_the_last_checkpoint(base: Path, tmp_path: Path) -> None:
    """After the second checkpoint no file may grow beyond 4 KB, as on a disk without room."""
    job = job_of(tmp_path, base, epochs=500, total_steps=2000, eval_every_steps=2)
    attempt = tmp_path / "attempt"
    process = launch(put_job(job, attempt))
    while process.poll() is None and len(saves(attempt)) < 3:
        time.sleep(0.001)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 10, output
    assert error_of(attempt)["kind"] == "disk_full"
    resume = {**job, "resume_from": last_checkpoint(attempt)}
    resume["frozen"]["settings"]["train"]["total_steps"] = lines(attempt / "metrics.jsonl")[-1][
        "step"
    ]
    assert not list((attempt / "checkpoints").glob(".*"))
    assert main(str(put_job(resume, attempt))) == 0, "every file of the checkpoint is verified"


def test_labels_that_changed_are_refused(base: Path, tmp_path: Path) -> None:
    job = job_of(tmp_path, base)
    digest = labels_sha256(trained_examples(job, "train"))
    right = put_job({**job, "labels_sha256": digest}, tmp_path / "right")
    wrong = put_job({**job, "labels_sha256": "0" * 64}, tmp_path / "wrong")
    assert main(str(right)) == 0
    assert main(str(wrong)) == 5
    assert error_of(tmp_path / "wrong")["kind"] == "changed_since_release"
    assert not (tmp_path / "wrong" / "metrics.jsonl").exists()


def test_a_checkpoint_of_other_settings_is_refused(
    base: Path, straight: Path, tmp_path: Path
) -> None:
    job = {
        **job_of(tmp_path, base),
        "run_digest": "another",
        "resume_from": last_checkpoint(straight),
    }
    assert main(str(put_job(job, tmp_path / "attempt"))) == 5


def test_a_damaged_checkpoint_is_refused(base: Path, straight: Path, tmp_path: Path) -> None:
    copy = tmp_path / "step-000008"
    shutil.copytree(str(last_checkpoint(straight)), copy)
    data = bytearray((copy / "optimizer.safetensors").read_bytes())
    data[-1] ^= 1
    (copy / "optimizer.safetensors").write_bytes(data)
    job = {**job_of(tmp_path, base), "resume_from": str(copy)}
    assert main(str(put_job(job, tmp_path / "attempt"))) == 5
    assert "not the file" in error_of(tmp_path / "attempt")["message"]


def test_another_attempt_may_go_on(base: Path, straight: Path, tmp_path: Path) -> None:
    """From a checkpoint that was copied to another machine, best adapter and all."""
    copy = tmp_path / "pulled"
    shutil.copytree(str(last_checkpoint(straight)), copy)
    attempt = tmp_path / "attempt"
    job = {**job_of(tmp_path, base), "resume_from": str(copy)}
    assert main(str(put_job(job, attempt))) == 0
    receipts = [json.loads((a / "receipt.json").read_text()) for a in (straight, attempt)]
    assert receipts[0]["best"] == receipts[1]["best"]
    assert receipts[0]["adapter"]["sha256"] == receipts[1]["adapter"]["sha256"]


def test_padded_training_of_another_architecture(tmp_path: Path) -> None:
    gemma = make_base(tmp_path / "gemma", kind="gemma3_text")
    attempt = tmp_path / "attempt"
    assert main(str(put_job(job_of(tmp_path, gemma, dropout=0.0), attempt))) == 0
    receipt = json.loads((attempt / "receipt.json").read_text())
    assert receipt["steps"] == 8 and receipt["effect"]["changed"] == 8


def test_an_adapter_with_other_tensors_is_refused(
    base: Path, straight: Path, tmp_path: Path
) -> None:
    from safetensors.torch import save_file

    from tunegate.errors import ChangedSinceRelease

    shutil.copytree(straight / "adapter", tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    tensors = load_file(file)
    tensors.pop(sorted(tensors)[0])
    save_file(tensors, file)
    with pytest.raises(ChangedSinceRelease, match="1 tensors are missing"):
        load_merged(base, tmp_path / "adapter")


def test_tiny_wire_test(base: Path, tmp_path: Path) -> None:
    attempt = tmp_path / "wire"
    job = {**job_of(tmp_path, base, dropout=0.0), "kind": "wire", "wire_rows": 10, "tiny": True}
    job["anchor_steps"] = [{"step": n, "row_ids": [0, 1, 2], "loss": 9.0} for n in (1, 2)]
    job["frozen"]["settings"]["train"]["lora"].update(rank=16, alpha=32)
    assert main(str(put_job(job, attempt))) == 0
    seen = json.loads((attempt / "observation.json").read_text())
    assert seen["rows"] == 10 and seen["exact"] == 10 and seen["stopped"] == 10
    assert seen["last_loss"] < 0.1 * seen["first_loss"]
    assert seen["batch_size"] == 3 and seen["step_s_median"] > 0 and seen["checkpoint_bytes"] > 1000
    assert len(seen["samples"]) == 3
    judged = {
        name: checks.load(name).judge(observation, job["frozen"])
        for name, observation in seen["checks"].items()
    }
    assert list(judged) == checks.names("machine")
    assert {name for name, verdict in judged.items() if verdict.status != "pass"} == set()
    # The steps that it set beside the anchor's are those of a training.
    beside = seen["checks"]["loss_anchor"]["anchor"]
    assert [(step["step"], step["anchor_loss"]) for step in beside] == [(1, 9.0), (2, 9.0)]
    assert all(len(step["row_ids"]) == 3 and step["loss"] > 0 for step in beside)
    assert len(judged["loss_anchor"].warnings) == 2
    assert sorted(path.name for path in attempt.iterdir()) == [
        "job.json", "observation.json", "progress.json",
    ]  # fmt: skip


def test_probe_describes_the_machine(base: Path, tmp_path: Path) -> None:
    job = {**make_job(tmp_path, base), "kind": "probe"}
    assert main(str(put_job(job, tmp_path / "probe"))) == 0
    found = json.loads((tmp_path / "probe" / "probe.json").read_text())
    assert found["gflops"]["float32"] > 0 and found["memory_gib"] > 0 and found["cores"] >= 1
