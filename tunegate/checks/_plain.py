"""The slow, plain answer: transformers' own model in float32, one unpadded row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunegate.types import IGNORED, Example, Json
from tunegate.worker.feed import examples
from tunegate.worker.model import pick_device, quiet
from tunegate.worker.probe import device_memory_gib


@dataclass(frozen=True)
class RowLoss:
    """Loss of one row, summed over the tokens that carry it."""

    summed: float
    tokens: int


def rows_of(job: Json, split: str) -> dict[int, Example]:
    """The rows of a job by index, labelled by Tunegate's own encoder whatever the framework."""
    return {row.index: row for row in examples(job, split) if row.dropped is None}


def load_plain(base_dir: Path, adapter_dir: Path | None = None) -> Any:
    """The base in float32 with eager attention, the adapter from disk on it where one is named.

    Where half of the device's memory does not hold the weights in float32, in their own type.
    """
    import torch
    from transformers import AutoModelForCausalLM

    size = sum(path.stat().st_size for path in base_dir.glob("*.safetensors"))
    room = device_memory_gib()
    fits = room is None or 2 * size < 0.5 * room * 2**30  # stored in two bytes, loaded in four
    with quiet():
        model = AutoModelForCausalLM.from_pretrained(
            base_dir,
            dtype=torch.float32 if fits else "auto",
            attn_implementation="eager",
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
        )
        if adapter_dir is not None:
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, str(adapter_dir), is_trainable=False)
    return model.to(pick_device()).eval()


def plain_losses(model: Any, rows: Iterable[Example]) -> Iterator[RowLoss]:
    """Loss of each row alone, labels shifted here and not by the model."""
    import torch

    for row in rows:
        with torch.inference_mode():
            ids = torch.tensor([row.input_ids], device=model.device)
            logits = model(input_ids=ids).logits[0, :-1]
        labels = torch.tensor(row.labels[1:], device=model.device)
        loss = torch.nn.functional.cross_entropy(
            logits.float(), labels, ignore_index=IGNORED, reduction="sum"
        )
        yield RowLoss(float(loss), int((labels != IGNORED).sum()))


def mean_of(losses: Iterable[RowLoss]) -> float:
    """Mean over all tokens of the rows."""
    held = list(losses)
    return sum(row.summed for row in held) / max(sum(row.tokens for row in held), 1)


def apart(one: float, other: float) -> float:
    """Relative difference of two losses."""
    return abs(one - other) / max(abs(one), abs(other), 1e-12)
