"""The adapter on disk is another one than the trainer chose, or does nothing once it is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from safetensors.torch import load_file, save_file  # noqa: E402

from tests.rehearsals import copy_of, judged, said  # noqa: E402
from tunegate.types import Status  # noqa: E402
from tunegate.worker.rehearse import Rehearsal  # noqa: E402


@pytest.fixture
def own(rehearsed: tuple[dict[str, Any], Rehearsal], tmp_path: Path) -> Rehearsal:
    return copy_of(rehearsed[1], tmp_path / "rehearsal")


def config(own: Rehearsal, **changes: Any) -> None:
    path = own.straight / "adapter/adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_adapter_that_was_chosen_passes(rehearsed):
    verdict = judged("artifact_roundtrip", *rehearsed)
    assert verdict.status is Status.PASS, said(verdict)


def test_the_last_checkpoint_in_place_of_the_best_is_seen(rehearsed, own):
    shutil.copyfile(own.half_adapter, own.straight / "adapter/adapter_model.safetensors")
    verdict = judged("artifact_roundtrip", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "with the adapter from disk the loss is" in said(verdict)


def test_an_adapter_under_foreign_names_is_idle_and_seen(rehearsed, own):
    path = own.straight / "adapter/adapter_model.safetensors"
    save_file(
        {key.replace("model.layers", "model.language_model.layers"): tensor
         for key, tensor in load_file(path).items()}, path
    )  # fmt: skip
    verdict = judged("artifact_roundtrip", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "the adapter is idle" not in said(verdict)  # the base's loss is not that of training
    assert "with the adapter merged into the base the loss is" in said(verdict)


def test_an_adapter_of_zeros_is_idle(rehearsed, own):
    receipt = own.straight / "receipt.json"
    told = json.loads(receipt.read_text())
    path = own.straight / "adapter/adapter_model.safetensors"
    save_file({key: torch.zeros_like(tensor) for key, tensor in load_file(path).items()}, path)
    verdict = judged("artifact_roundtrip", rehearsed[0], own)
    told["best"]["validation_loss"] = verdict.numbers["base"]
    receipt.write_text(json.dumps(told))
    verdict = judged("artifact_roundtrip", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "the adapter is idle" in said(verdict)


def test_another_scale_in_the_configuration_is_seen(rehearsed, own):
    config(own, lora_alpha=4)
    assert judged("artifact_roundtrip", rehearsed[0], own).status is Status.FAIL


def test_another_base_in_the_configuration_is_seen(rehearsed, own):
    config(own, base_model_name_or_path="tiny-chat", revision="main")
    verdict = judged("artifact_roundtrip", rehearsed[0], own)
    assert verdict.status is Status.FAIL
    assert "names the base 'tiny-chat', not 'tiny'" in said(verdict)
    assert "names the revision 'main', not None" in said(verdict)
