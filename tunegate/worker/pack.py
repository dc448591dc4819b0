"""Rows laid end to end as one packed row, with the tokens that all of them begin with laid once.

Axes: T tokens of the packed row, P shared prefix tokens, S supervised tokens, B rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tunegate.types import IGNORED, Example
from tunegate.worker.attention import Layout

if TYPE_CHECKING:
    from torch import Tensor

PACK_TOKENS = 3072
"""Most tokens of a pack; an optimizer batch above it is split into several. Activations of a
135M model take about 1.3 MB a token in float32, so a pack stays under 4 GB."""


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
    row_of: Tensor
    """int64 [S]: which of the pack's rows it belongs to."""


def shared_prefix(rows: Sequence[Sequence[int]]) -> int:
    """Tokens that all rows begin with; at least one token of every row stays its own."""
    if len(rows) < 2:
        return 0
    low, high = min(rows), max(rows)  # the two that differ first, in dictionary order
    limit = min(len(row) for row in rows) - 1
    for position in range(limit):
        if low[position] != high[position]:
            return position
    return max(limit, 0)


def split(examples: Sequence[Example], *, share: bool, limit: int = PACK_TOKENS) -> list[list[Example]]:
    """The batch in its order, cut into packs of at most `limit` tokens; a longer row goes alone."""
    prefix = shared_prefix([e.input_ids for e in examples]) if share else 0
    packs: list[list[Example]] = []
    room = 0
    for example in examples:
        own = len(example.input_ids) - prefix
        if not packs or own > room:
            packs.append([])
            room = limit - prefix
        packs[-1].append(example)
        room -= own
    return packs


def lay(
    rows: Sequence[Sequence[int]], *, prefix: int = 0, cached: Sequence[int] | None = None, base: int = 0
) -> tuple[Tensor, Tensor, Layout]:
    """Ids and positions [1, T] and layout of rows whose first `prefix` tokens are laid once.

    `cached` holds the tokens that each row already has in the cache (generation), and `base` the
    length of the prefix there.
    """
    import torch

    starts = torch.tensor(cached if cached is not None else [0] * len(rows))
    ids, positions, gather, scatter = list(rows[0][:prefix]), list(range(prefix)), [], []
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
        prefix=prefix, rows=len(rows), width=width, blocked=blocked,
        gather=torch.tensor(gather), scatter=torch.tensor(scatter),
    )
    return torch.tensor([ids]), torch.tensor([positions]), layout


def build(examples: Sequence[Example], *, share: bool = True) -> Pack:
    """The pack of these examples. A row's first token is never predicted: nothing stands before it."""
    import torch

    prefix = shared_prefix([e.input_ids for e in examples]) if share else 0
    input_ids, position_ids, layout = lay([e.input_ids for e in examples], prefix=prefix)
    keep, targets, row_of = [], [], []
    laid = 0
    for number, example in enumerate(examples):
        for token in range(1, len(example.labels)):
            if example.labels[token] != IGNORED:
                keep.append(token - 1 if token <= prefix else laid + token - 1)
                targets.append(example.labels[token])
                row_of.append(number)
        laid += len(example.input_ids) - prefix
    return Pack(
        input_ids=input_ids, position_ids=position_ids, layout=layout,
        keep=torch.tensor(keep), targets=torch.tensor(targets), row_of=torch.tensor(row_of),
    )
