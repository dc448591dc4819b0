"""A part of the adapter that is not there, or that no gradient reaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402

from tests.rehearsals import copy_of, judged, make_rehearsal, said  # noqa: E402
from tunegate.types import Status  # noqa: E402
from tunegate.worker.rehearse import Rehearsal  # noqa: E402


@pytest.fixture
def own(rehearsed: tuple[dict[str, Any], Rehearsal], tmp_path: Path) -> Rehearsal:
    return copy_of(rehearsed[1], tmp_path / "rehearsal")


def change(path: Path, **tensors: Any) -> None:
    """Put tensors in place of those whose name ends so; None takes one away."""
    held = load_file(path)
    for ending, make in tensors.items():
        name = next(key for key in held if key.endswith(f"{ending}.weight"))
        if make is None:
            del held[name]
        else:
            held[name] = make(held[name])
    save_file({key: tensor.contiguous() for key, tensor in held.items()}, path)


def newest(own: Rehearsal) -> Path:
    return own.newest_adapter(own.halved)


def test_an_adapter_that_moved_passes(rehearsed):
    verdict = judged("grad_probe", *rehearsed)
    assert verdict.status is Status.PASS, said(verdict)
    assert verdict.numbers["moved"] == 28


def test_a_b_matrix_of_zeros_is_seen(rehearsed, own):
    change(newest(own), lora_B=torch.zeros_like)
    verdict = judged("grad_probe", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "lora_B.weight did not move" in said(verdict)


def test_an_a_matrix_that_stands_still_is_seen(rehearsed, own):
    held = load_file(own.half_adapter)
    change(newest(own), lora_A=lambda _: next(t for k, t in held.items() if "lora_A" in k))
    verdict = judged("grad_probe", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "lora_A.weight did not move" in said(verdict)


def test_a_target_that_the_trainer_left_out_is_seen(rehearsed, own):
    change(newest(own), lora_A=None)
    verdict = judged("grad_probe", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "is to be trained and is not in the adapter" in said(verdict)


def test_a_tensor_that_nobody_asked_for_is_seen(tmp_path):
    job, rehearsal = make_rehearsal(tmp_path)
    lora = rehearsal.job["frozen"]["settings"]["train"]["lora"]
    lora["targets"] = [name for name in lora["targets"] if name != "q_proj"]
    verdict = judged("grad_probe", job, rehearsal)
    assert verdict.status is Status.FAIL
    assert "q_proj.lora_A.weight is in the adapter and was not asked for" in said(verdict)


def test_half_precision_adapters_are_seen(rehearsed, own):
    held = load_file(newest(own))
    save_file({key: tensor.bfloat16() for key, tensor in held.items()}, newest(own))
    verdict = judged("grad_probe", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "torch.bfloat16" in said(verdict)


def test_values_that_are_not_finite_are_seen(rehearsed, own):
    change(newest(own), lora_A=lambda tensor: tensor / 0)
    assert "not finite" in said(judged("grad_probe", rehearsed[0], own))


def test_a_gradient_of_zero_is_seen(rehearsed, own):
    path = own.straight / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["grad_norm"] = 0.0
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = judged("grad_probe", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "the gradient norm was 0.0 in a step" in said(verdict)
