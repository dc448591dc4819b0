"""Exact attention over a packed row: a prefix that all rows share, and each row's own tokens.

transformers calls `packed_attention` through its AttentionInterface, with the `Layout` passed as a
model argument. Prefix queries see the prefix causally. Own queries see the whole prefix (one
product for all rows, no copies) and their own row causally; no row sees another.

Axes: T tokens of the packed row, P prefix tokens, B rows, L most new tokens of a row, M most
tokens a row has (cached and new), H query heads, K key heads, G = H / K, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn

NAME = "tunegate_packed"
"""The name under which transformers finds `packed_attention`."""

LARGE_SCORES = 1 << 25
"""Scores of one layer (elements) above which they are not kept: torch's fused kernel runs instead,
at the price of one copy of the prefix keys a row."""


@dataclass
class Layout:
    """Where the tokens of one packed row [1, T] belong."""

    prefix: int
    """P: leading tokens of the packed row that all rows share; 0 where `cache` holds the prefix."""
    rows: int
    width: int
    """L."""
    gather: Tensor
    """int64 [B*L]: for each padded slot, its token among the own tokens (padding repeats one)."""
    scatter: Tensor
    """int64 [T-P]: for each own token, its padded slot."""
    blocked: Tensor
    """bool [B or 1, 1, L, M]: True where a query must not see a key of its own row."""
    cache: KeyValues | None = None

    def to(self, device: Any) -> Layout:
        """The same on a device."""
        moved = {
            name: getattr(self, name).to(device, non_blocking=True)
            for name in ("gather", "scatter", "blocked")
        }
        return replace(self, **moved)


class KeyValues:
    """Keys and values of earlier tokens, for generation: a shared prefix, rows of fixed capacity.

    Shapes: a prefix entry [K, P, D]; an own entry [K, B, capacity, D], both a layer.
    """

    def __init__(
        self, prefix: list[tuple[Tensor, Tensor]] | None, *, layers: int, capacity: int
    ) -> None:
        self.prefix = prefix
        self.capacity = capacity
        self.own: list[tuple[Tensor, Tensor] | None] = [None] * layers
        self.slots: Tensor
        """int64 [B*L]: place in a flattened [B*capacity] where each padded slot is written."""
        self.reach = 0
        """M of the present call."""

    def extend(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Write new keys and values [K, B, L, D]; returns all that the rows have, [K, B, M, D]."""
        heads, rows, _, size = keys.shape
        entry = self.own[layer]
        if entry is None:
            shape = (heads, rows, self.capacity, size)
            entry = self.own[layer] = (keys.new_zeros(shape), values.new_zeros(shape))
        for store, new in zip(entry, (keys, values), strict=True):
            flat = store.view(heads, rows * self.capacity, size)
            flat.index_copy_(1, self.slots, new.reshape(heads, -1, size))
        return entry[0][:, :, : self.reach], entry[1][:, :, : self.reach]

    def keep(self, rows: Tensor) -> None:
        """Forget all rows but these (int64 [B'])."""
        self.own = [
            None
            if entry is None
            else (entry[0].index_select(1, rows), entry[1].index_select(1, rows))
            for entry in self.own
        ]


def register() -> None:
    """Make `packed_attention` known to transformers under `NAME`. Safe to call again."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    layout: Layout,
    **_: Any,
) -> tuple[Tensor, None]:
    """The attention output [1, T, H, D] of query [1, H, T, D], key and value [1, K, T, D]."""
    import torch

    shared = layout.prefix
    out = []
    front: tuple[Tensor, Tensor] | None = None
    if layout.cache is not None and layout.cache.prefix is not None:
        front = layout.cache.prefix[module.layer_idx]  # type: ignore[index]
    elif shared:
        front = (key[0, :, :shared], value[0, :, :shared])
        seen = torch.nn.functional.scaled_dot_product_attention(
            query[:, :, :shared],
            front[0][None],
            front[1][None],
            is_causal=True,
            scale=scaling,
            enable_gqa=query.shape[1] != key.shape[1],
        )
        out.append(seen.transpose(1, 2))
    out.append(_own(module, query, key, value, front, scaling=scaling, layout=layout))
    return (out[0] if len(out) == 1 else torch.cat(out, dim=1)), None


def _own(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    front: tuple[Tensor, Tensor] | None,
    *,
    scaling: float,
    layout: Layout,
) -> Tensor:
    """The output [1, T-P, H, D] of the rows' own tokens."""
    q_heads, size = query.shape[1], query.shape[3]
    heads = key.shape[1]
    rows, width = layout.rows, layout.width

    def padded(tensor: Tensor) -> Tensor:
        """[1, heads, T, D] -> [K, B, heads / K, L, D]."""
        own = tensor[0].transpose(0, 1)[layout.prefix :].index_select(0, layout.gather)
        return own.view(rows, width, heads, -1, size).permute(2, 0, 3, 1, 4)

    q, k, v = padded(query), padded(key)[:, :, 0], padded(value)[:, :, 0]
    if layout.cache is not None:
        k, v = layout.cache.extend(module.layer_idx, k, v)  # type: ignore[arg-type]
    reach = k.shape[2] + (0 if front is None else front[0].shape[1])
    if q_heads * rows * width * reach > LARGE_SCORES:
        seen = _fused(q, k, v, front, scaling=scaling, blocked=layout.blocked)
    else:
        seen = _products(q, k, v, front, scaling=scaling, blocked=layout.blocked)
    flat = seen.permute(1, 3, 0, 2, 4).reshape(rows * width, q_heads, size)
    return flat.index_select(0, layout.scatter)[None]


def _products(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    front: tuple[Tensor, Tensor] | None,
    *,
    scaling: float,
    blocked: Tensor,
) -> Tensor:
    """Attention [K, B, G, L, D] by plain products; prefix keys enter one product for all rows."""
    import torch

    heads, rows, groups, width, size = q.shape
    q = q.reshape(heads, rows, groups * width, size) * scaling
    scores = (q @ k.transpose(2, 3)).view(heads, rows, groups, width, -1)
    scores = scores.masked_fill(blocked, float("-inf"))
    if front is not None:
        ahead = q.reshape(heads, -1, size) @ front[0].transpose(1, 2)
        scores = torch.cat((ahead.view(heads, rows, groups, width, -1), scores), dim=-1)
    # float32 at least, as transformers' own attention does; float64 stays for the exactness tests.
    exact = torch.promote_types(q.dtype, torch.float32)
    weights = torch.softmax(scores, dim=-1, dtype=exact).to(v.dtype)
    prefix = weights.shape[-1] - k.shape[2]
    own = weights[..., prefix:].reshape(heads, rows, groups * width, -1)
    out = (own @ v).view(heads, rows, groups, width, size)
    if front is not None:
        ahead = weights[..., :prefix].reshape(heads, rows * groups * width, prefix)
        out = out + (ahead @ front[1]).view_as(out)
    return out


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    front: tuple[Tensor, Tensor] | None,
    *,
    scaling: float,
    blocked: Tensor,
) -> Tensor:
    """As `_products`, through torch's kernel that does not keep the scores: for long rows."""
    import torch

    heads, rows, groups, width, size = q.shape
    blocked = blocked.expand(rows, 1, width, k.shape[2])
    if front is not None:
        shape = (heads, rows, -1, size)
        k = torch.cat((front[0][:, None].expand(shape), k), dim=2)
        v = torch.cat((front[1][:, None].expand(shape), v), dim=2)
        open_ = blocked.new_zeros(rows, 1, width, front[0].shape[1])
        blocked = torch.cat((open_, blocked), dim=-1)
    seen = torch.nn.functional.scaled_dot_product_attention(
        q.permute(1, 0, 2, 3, 4).reshape(rows, heads * groups, width, size),
        k.transpose(0, 1),
        v.transpose(0, 1),
        attn_mask=~blocked,
        scale=scaling,
        enable_gqa=groups > 1,
    )
    return seen.view(rows, heads, groups, width, size).transpose(0, 1)
