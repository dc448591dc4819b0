"""Rows a second of the native trainer against transformers with PEFT on padded batches, in one run.

    python -m bench.training examples/triage [--steps 6] [--batch 8] [--precision fp32]

Both train the same rows of a frozen run (`tunegate freeze` first) with the same adapter, optimizer
and loss. The peer is the plain way: rows padded to the longest, logits at every position.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tunegate.types import IGNORED, Example, Json
from tunegate.verbs.prepare import worker_frozen
from tunegate.verbs.run import Run
from tunegate.worker.feed import Order, trained_examples
from tunegate.worker.model import attach_lora, load_base, precision_dtype
from tunegate.worker.step import Stepper


def main() -> None:
    """Print seconds a step of both, and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="folder of a frozen run")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    options = parser.parse_args()
    frozen = worker_frozen(Run(options.run))
    job = {"frozen": frozen, "data_dir": str(options.run)}
    examples = trained_examples(job, "train")
    order = Order(len(examples), options.batch, 0)
    batches = [[examples[at] for at in order.batch(step + 1)] for step in range(options.steps)]
    base_dir, lora = Path(frozen["base"]["dir"]), frozen["settings"]["train"]["lora"]
    found = {
        "native": timed(native(base_dir, lora, options.precision), batches),
        "native, prefix not shared": timed(
            native(base_dir, lora, options.precision, share=False), batches
        ),
        "transformers + peft, padded": timed(peer(base_dir, lora, options.precision), batches),
    }
    for name, seconds in found.items():
        ratio = found["transformers + peft, padded"] / seconds
        rate = options.batch / seconds
        print(f"{name:<28} {seconds:6.2f} s a step {rate:6.2f} rows/s  {ratio:.2f} x")


def timed(step: Callable[[Sequence[Example]], None], batches: Sequence[Sequence[Example]]) -> float:
    """Median seconds of a step; the first, which warms up, is left out."""
    took = []
    for batch in batches:
        began = time.perf_counter()
        step(batch)
        took.append(time.perf_counter() - began)
    return statistics.median(took[1:])


def native(
    base_dir: Path, lora: Json, precision: str, *, share: bool = True
) -> Callable[[Sequence[Example]], None]:
    """One optimizer step of the native trainer."""
    base = load_base(base_dir, precision=precision)
    attach_lora(base, lora, seed=0, name="bench", revision=None)
    stepper = Stepper(base, weight_decay=0.0, max_grad_norm=1.0, share_prefix=share)

    def step(batch: Sequence[Example]) -> None:
        stepper.update(batch, rate=1e-4)

    return step


def peer(base_dir: Path, lora: Json, precision: str) -> Callable[[Sequence[Example]], None]:
    """One optimizer step with transformers' own model, PEFT's adapter and a padded batch."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(
        base_dir, dtype=precision_dtype(precision), local_files_only=True
    )
    config = LoraConfig(
        r=lora["rank"], lora_alpha=lora["alpha"], target_modules=lora["targets"], bias="none"
    )
    model = get_peft_model(model, config)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=1e-4, weight_decay=0.0, fused=True)

    def step(batch: Sequence[Example]) -> None:
        width = max(len(example.input_ids) for example in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        labels = torch.full((len(batch), width), IGNORED)
        mask = torch.zeros(len(batch), width, dtype=torch.long)
        for row, example in enumerate(batch):
            count = len(example.input_ids)
            ids[row, :count] = torch.tensor(example.input_ids)
            labels[row, :count] = torch.tensor(example.labels)
            mask[row, :count] = 1
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


if __name__ == "__main__":
    main()
