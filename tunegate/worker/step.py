"""One optimizer step, and one pass of validation, over packed rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tunegate.errors import TrainerError
from tunegate.types import IGNORED, Example
from tunegate.worker import pack
from tunegate.worker.model import Base

if TYPE_CHECKING:
    from torch import Tensor

SCHEDULES = ("linear", "cosine", "constant")


@dataclass(frozen=True)
class StepResult:
    """What one optimizer step saw."""

    loss: float
    """Mean over the batch's supervised tokens, before the update."""
    grad_norm: float
    """Over all trained weights, before clipping."""
    tokens: int
    """Of the rows, each counted whole."""
    answer_tokens: int
    """Supervised ones."""


def answer_tokens(examples: Sequence[Example]) -> int:
    """Tokens that carry loss; a row's first token cannot, since nothing predicts it."""
    return sum(label != IGNORED for e in examples for label in e.labels[1:])


def learning_rate(step: int, *, peak: float, schedule: str, warmup: int, total: int) -> float:
    """The rate of the 1-based `step`: a linear rise over `warmup` steps, then the schedule.

    The last step is the one before the schedule reaches zero, so every step trains.
    """
    if step <= warmup:
        return peak * step / warmup
    done = (step - 1 - warmup) / max(total - warmup, 1)
    if schedule == "linear":
        return peak * max(1 - done, 0.0)
    if schedule == "cosine":
        return peak * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))
    return peak


class Stepper:
    """Holds a model, its trained weights and their optimizer."""

    def __init__(
        self,
        base: Base,
        *,
        weight_decay: float,
        max_grad_norm: float,
        share_prefix: bool,
        pack_tokens: int = pack.PACK_TOKENS,
    ) -> None:
        import torch

        self.base = base
        self.share = share_prefix
        self.pack_tokens = pack_tokens
        self.max_grad_norm = max_grad_norm
        self.weights = {n: p for n, p in base.model.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.AdamW(
            list(self.weights.values()), lr=0.0, weight_decay=weight_decay, fused=True
        )

    def update(self, examples: Sequence[Example], *, rate: float) -> StepResult:
        """Train on one batch: the token mean over the whole batch, however many packs it takes.

        Raises TrainerError (`diverged`), before the weights change, for a loss or a gradient that
        is not finite.
        """
        import torch

        count = answer_tokens(examples)
        self.base.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        logits = _logit_rows(self.base)
        for part in pack.split(examples, share=self.share, logits=logits, tokens=self.pack_tokens):
            loss = summed_loss(self.base, part, share=self.share) / count
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.values(), self.max_grad_norm))
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise TrainerError(
                f"the loss is {total}, the gradient norm {norm}: training diverged",
                kind="diverged",
                hint="lower train.learning_rate, or raise train.warmup_steps",
            )
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        return StepResult(total, norm, sum(len(e.input_ids) for e in examples), count)

    def most_tokens(self, examples: Sequence[Example]) -> int:
        """Tokens of the batch's largest forward pass: what activations are kept for."""
        packs = pack.split(
            examples, share=self.share, logits=_logit_rows(self.base), tokens=self.pack_tokens
        )
        if self.base.plain is not None:
            return max(len(part) * max(len(e.input_ids) for e in part) for part in packs)
        return max(pack.laid_tokens(part, share=self.share) for part in packs)


def mean_loss(
    base: Base, examples: Sequence[Example], *, watch: Callable[[int], None] = lambda _: None
) -> float:
    """Mean loss over all supervised tokens of the rows. `watch` hears how many rows are done."""
    import torch

    base.model.eval()
    ordered = sorted(examples, key=lambda e: len(e.input_ids))  # rows of like length pad little
    total, done = 0.0, 0
    with torch.inference_mode():
        for part in pack.split(ordered, share=True, logits=_logit_rows(base)):
            total += float(summed_loss(base, part, share=True))
            done += len(part)
            watch(done)
    return total / answer_tokens(examples)


def summed_loss(base: Base, examples: Sequence[Example], *, share: bool) -> Tensor:
    """Loss of one pack, summed over its supervised tokens, in float32 or better."""
    import torch

    logits, targets = _logits(base, examples, share=share)
    exact = torch.promote_types(logits.dtype, torch.float32)
    return torch.nn.functional.cross_entropy(logits.to(exact), targets, reduction="sum")


def knows(base: Base, examples: Sequence[Example]) -> bool:
    """Whether each supervised token is the most likely one, so that greedy decoding writes it."""
    import torch

    base.model.eval()
    with torch.inference_mode():
        for part in pack.split(examples, share=True, logits=_logit_rows(base)):
            logits, targets = _logits(base, part, share=True)
            if not bool((logits.argmax(dim=-1) == targets).all()):
                return False
    return True


def _logits(base: Base, examples: Sequence[Example], *, share: bool) -> tuple[Tensor, Tensor]:
    if base.plain is None:
        return packed_logits(base, examples, share=share)
    return padded_logits(base, examples)


def _logit_rows(base: Base) -> int:
    """Most supervised tokens of a pack."""
    vocab: int = base.model.get_input_embeddings().weight.shape[0]
    return max(pack.LOGITS // vocab, 1)


def packed_logits(base: Base, examples: Sequence[Example], *, share: bool) -> tuple[Tensor, Tensor]:
    """Logits [S, V] and targets [S] of the supervised tokens, from one packed row."""
    laid = pack.build(examples, share=share).to(base.device)
    out = base.model(
        input_ids=laid.input_ids,
        position_ids=laid.position_ids,
        layout=laid.layout,
        logits_to_keep=laid.keep,
        use_cache=False,
    )
    return out.logits[0], laid.targets


def padded_logits(base: Base, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """As `packed_logits`, from rows padded at their end, for attention that cannot be packed."""
    import torch

    width = max(len(e.input_ids) for e in examples)
    ids = torch.zeros(len(examples), width, dtype=torch.int64)
    labels = torch.full((len(examples), width), IGNORED)
    mask = torch.zeros(len(examples), width, dtype=torch.int64)
    for number, example in enumerate(examples):
        length = len(example.input_ids)
        ids[number, :length] = torch.tensor(example.input_ids)
        labels[number, :length] = torch.tensor(example.labels)
        mask[number, :length] = 1
    rows, columns = (labels[:, 1:] != IGNORED).nonzero(as_tuple=True)
    device: Any = base.device
    head = base.model.get_output_embeddings()

    def pick(_: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Of hidden states [B, T, H] the supervised ones, [1, S, H]: a vocabulary of 262,144 times
        all positions would take gigabytes.
        """
        return (inputs[0][rows.to(device), columns.to(device)][None], *inputs[1:])

    hook = head.register_forward_pre_hook(pick)
    try:
        out = base.model(input_ids=ids.to(device), attention_mask=mask.to(device), use_cache=False)
    finally:
        hook.remove()
    logits = out.logits.view(len(rows), head.weight.shape[0])
    return logits, labels[rows, columns + 1].to(device)


def first_logits(base: Base, prompts: Sequence[Sequence[int]]) -> Tensor:
    """Logits [B, V], float32, of the token after each prompt."""
    import torch

    # One made-up token after each prompt, for whose sake its logits are computed.
    rows = [Example(0, [*ids, 0], [IGNORED] * len(ids) + [0]) for ids in prompts]
    base.model.eval()
    with torch.inference_mode():
        return _logits(base, rows, share=True)[0].float()
