"""The native trainer on a GPU: the same loss and gradients, bf16 close to them, resume, answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from tiny_run import make_base, make_job, put_job  # noqa: E402

from tunegate.types import Example  # noqa: E402
from tunegate.worker import pack  # noqa: E402
from tunegate.worker.feed import trained_examples  # noqa: E402
from tunegate.worker.generate import Answer, Writer  # noqa: E402
from tunegate.worker.main import main  # noqa: E402
from tunegate.worker.model import attach_lora, load_base  # noqa: E402
from tunegate.worker.step import Stepper, first_logits, summed_loss  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def base_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base") / "tiny", tie_word_embeddings=False)


def stepper(
    base_dir: Path, job: dict[str, Any], *, precision: str, device: str | None = None
) -> Stepper:
    base = load_base(base_dir, precision=precision)
    if device is not None:
        base.model.to(device)
        base.device = torch.device(device)
    lora = job["frozen"]["settings"]["train"]["lora"]
    attach_lora(base, lora, seed=0, name="tiny", revision=None)
    made = Stepper(base, weight_decay=0.0, max_grad_norm=1.0, share_prefix=True)
    generator = torch.Generator().manual_seed(1)
    for name, weight in made.weights.items():
        if "lora_B" in name:
            draw = torch.randn(weight.shape, generator=generator) * 0.1
            weight.data.copy_(draw)
    return made


def gradient(made: Stepper, examples: list[Example]) -> torch.Tensor:
    summed_loss(made.base, examples, share=True).backward()
    return torch.cat([w.grad.flatten().double().cpu() for w in made.weights.values()])


@pytest.mark.parametrize(("precision", "limit"), [("fp32", 1e-3), ("bf16", 0.1)])
def test_gradients_equal_the_processors(
    base_dir: Path, tmp_path: Path, precision: str, limit: float
) -> None:
    job = make_job(tmp_path, base_dir)
    examples = trained_examples(job, "train")
    expected = gradient(stepper(base_dir, job, precision="fp32", device="cpu"), examples)
    made = stepper(base_dir, job, precision=precision)
    assert made.base.device.type == "cuda"
    assert all(weight.dtype == torch.float32 for weight in made.weights.values())
    found = gradient(made, examples)
    assert float((found - expected).norm() / expected.norm()) < limit


def test_a_resumed_run_is_the_same(base_dir: Path, tmp_path: Path) -> None:
    """Within rounding: sums on a GPU have no fixed order."""
    job = make_job(tmp_path, base_dir)
    whole, copy = tmp_path / "whole", tmp_path / "again"
    assert main(str(put_job(job, whole))) == 0
    receipt = json.loads((whole / "receipt.json").read_text())
    assert "CPU" not in receipt["device"] and receipt["effect"]["changed"] == 8
    checkpoint = sorted((whole / "checkpoints").glob("step-*"))[0]
    assert main(str(put_job({**job, "resume_from": str(checkpoint)}, copy))) == 0
    again = json.loads((copy / "receipt.json").read_text())
    assert again["last_loss"] == pytest.approx(receipt["last_loss"], rel=1e-3)
    assert again["rows_seen"] == receipt["rows_seen"]


def test_answers_follow_the_models_own_logits(base_dir: Path, tmp_path: Path) -> None:
    """Each token is the most likely one after the tokens before it, all computed afresh."""
    job = make_job(tmp_path, base_dir)
    ids = [e.input_ids[: 20 + 2 * e.index] for e in trained_examples(job, "train")[:6]]
    base = load_base(base_dir)
    answers = [Answer(str(n), row) for n, row in enumerate(ids)]
    writer = Writer(base, stop_ids=[0], max_new_tokens=10)
    list(writer.answer(answers, prefix=pack.shared_prefix(ids), batch_size=4))
    for answer in answers:
        steps = [answer.prompt + answer.tokens[:n] for n in range(len(answer.tokens))]
        logits = first_logits(base, steps)
        chosen = logits.gather(1, torch.tensor(answer.tokens, device=logits.device)[:, None])[:, 0]
        assert torch.all(logits.max(dim=1).values - chosen < 1e-3)
