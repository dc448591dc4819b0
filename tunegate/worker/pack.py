"""Rows laid end to end as one packed row, with the tokens that all of them begin with laid once.

Axes: T tokens of the packed row, P shared prefix tokens, S supervised tokens, B rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tunegate.types import IGNORED, Example
from tunegate.worker.attention import Layout

if TYPE_CHECKING:
    from torch import Tensor

PACK_TOKENS = 2048
"""Most tokens of a pack; an optimizer batch above it is split into several. Activations of a
135M model take about 1.3 MB a token in float32, so a pack stays under 3 GB."""

LOGITS = 1 << 26
"""Most logits (supervised tokens times vocabulary) of a pack: 256 MiB in float32."""


@dataclass
class Pack:
    """One forward pass of training."""

    input_ids: Tensor
    """int64 [1, T]."""
    position_ids: Tensor
    """int64 [1, T], restarting for each row where the prefix ends."""
    layout: Layout
    keep: Tensor
    """int64 [S]: the positions whose logits are computed; one may stand there for several rows."""
    targets: Tensor
    """int64 [S]: the token that each must predict."""

    def to(self, device: Any) -> Pack:
        """The same on a device, copied without waiting."""
        return Pack(
            input_ids=self.input_ids.to(device, non_blocking=True),
            position_ids=self.position_ids.to(device, non_blocking=True),
            layout=self.layout.to(device),
            keep=self.keep.to(device, non_blocking=True),
            targets=self.targets.to(device, non_blocking=True),
        )


def shared_prefix(rows: Sequence[list[int]]) -> int:
    """Tokens that all rows begin with; at least one token of every row stays its own."""
    if len(rows) < 2:
        return 0
    low, high = min(rows), max(rows)  # the two that differ first, in dictionary order
    limit = min(len(row) for row in rows) - 1
    for position in range(limit):
        if low[position] != high[position]:
            return position
    return max(limit, 0)


def split(
    examples: Sequence[Example], *, share: bool, logits: int, tokens: int = PACK_TOKENS
) -> list[list[Example]]:
    """The batch in order, cut into packs of at most `tokens` tokens and `logits` supervised ones.

    A row above the limit goes alone.
    """
    prefix = shared_prefix([e.input_ids for e in examples]) if share else 0
    packs: list[list[Example]] = []
    room = answers = 0
    for example in examples:
        own = len(example.input_ids) - prefix
        trained = sum(label != IGNORED for label in example.labels)
        if not packs or own > room or trained > answers:
            packs.append([])
            room, answers = tokens - prefix, logits
        packs[-1].append(example)
        room -= own
        answers -= trained
    return packs


def laid_tokens(examples: Sequence[Example], *, share: bool) -> int:
    """T of these examples' pack."""
    prefix = shared_prefix([e.input_ids for e in examples]) if share else 0
    return prefix + sum(len(e.input_ids) - prefix for e in examples)


def lay(
    rows: Sequence[list[int]],
    *,
    prefix: int = 0,
    cached: Sequence[int] | None = None,
    base: int = 0,
) -> tuple[Tensor, Tensor, Layout]:
    """Ids and positions [1, T] and layout of rows whose first `prefix` tokens are laid once.

    `cached` holds the tokens that each row already has in the cache (generation), and `base` the
    length of the prefix there.
    """
    import torch

    starts = torch.tensor(cached if cached is not None else [0] * len(rows))
    ids, positions = rows[0][:prefix], list(range(prefix))
    gather: list[int] = []
    scatter: list[int] = []
    width = max(len(row) for row in rows) - prefix
    laid = 0
    for number, row in enumerate(rows):
        own = len(row) - prefix
        first = base + prefix + int(starts[number])
        ids.extend(row[prefix:])
        positions.extend(range(first, first + own))
        gather.extend(laid + min(slot, own - 1) for slot in range(width))
        scatter.extend(range(number * width, number * width + own))
        laid += own
    queries = torch.arange(width)
    if cached is None:
        blocked = (queries[None, :] > queries[:, None])[None, None]
    else:
        keys = torch.arange(int(starts.max()) + width)
        blocked = (keys > (starts[:, None] + queries)[..., None])[:, None]
    layout = Layout(
        prefix=prefix,
        rows=len(rows),
        width=width,
        blocked=blocked,
        gather=torch.tensor(gather),
        scatter=torch.tensor(scatter),
    )
    return torch.tensor([ids]), torch.tensor([positions]), layout


def build(examples: Sequence[Example], *, share: bool = True) -> Pack:
    """The pack of these examples. A row's first token is never predicted: nothing is before it."""
    import torch

    prefix = shared_prefix([e.input_ids for e in examples]) if share else 0
    input_ids, position_ids, layout = lay([e.input_ids for e in examples], prefix=prefix)
    keep, targets = [], []
    laid = 0
    for example in examples:
        for token in range(1, len(example.labels)):
            if example.labels[token] != IGNORED:
                keep.append(token - 1 if token <= prefix else laid + token - 1)
                targets.append(example.labels[token])
        laid += len(example.input_ids) - prefix
    return Pack(
        input_ids=input_ids,
        position_ids=position_ids,
        layout=layout,
        keep=torch.tensor(keep),
        targets=torch.tensor(targets),
    )
