"""Decoding that can only write JSON of a schema, through llguidance.

The grammar takes the one-line form that `json.dumps` writes. Tokens that the grammar forces are
handed out at once, so that they cost no sampling step of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tunegate.errors import UsageError
from tunegate.types import Json

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from torch import Tensor

FORM: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Constraint:
    """A schema compiled for one tokenizer."""

    def __init__(
        self, schema: Json, *, base_dir: Path, vocab_size: int, stop_ids: Sequence[int]
    ) -> None:
        """Raises UsageError where the schema uses what the grammar cannot express."""
        from llguidance import LLMatcher, LLTokenizer

        self.vocab_size = vocab_size
        text = (base_dir / "tokenizer.json").read_text(encoding="utf-8")
        tokenizer = LLTokenizer(text, n_vocab=vocab_size, eos_token=sorted(stop_ids))
        grammar = LLMatcher.grammar_from_json_schema(schema, overrides=FORM)
        self._start = LLMatcher(tokenizer, grammar, log_level=0)
        if self._start.is_error():
            raise UsageError(
                f"task.schema cannot be decoded under: {self._start.get_error()}",
                hint="use the plain keywords of JSON Schema, or set eval.raw.constrained to false",
            )

    def begin(self) -> LLMatcher:
        """The state before the first token of an answer."""
        return self._start.deep_copy()

    def accepts(self, tokens: Sequence[int]) -> bool:
        """Whether the grammar allows exactly these tokens as a whole answer."""
        state = self.begin()
        return bool(state.try_consume_tokens(list(tokens)) == len(tokens) and state.is_accepting())

    def mask(self, logits: Tensor, states: Sequence[LLMatcher]) -> Tensor:
        """Logits [B, V] with -inf where a state does not allow the token."""
        import numpy
        import torch
        from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

        bits = allocate_token_bitmask(len(states), self.vocab_size)
        for row, state in enumerate(states):
            fill_next_token_bitmask(state, bits, row)
        flags = numpy.unpackbits(bits.view(numpy.uint8), axis=1, bitorder="little")
        allowed = torch.from_numpy(flags[:, : logits.shape[1]].astype(bool)).to(logits.device)
        return logits.masked_fill(~allowed, float("-inf"))


def forced(state: LLMatcher) -> list[int]:
    """The tokens that must come next, already taken into the state."""
    tokens: list[int] = state.compute_ff_tokens()
    if tokens:
        state.consume_tokens(tokens)
    return tokens


class Processor:
    """The same for transformers' own `generate`: a logits processor over [B, T] ids."""

    def __init__(self, constraint: Constraint, rows: int) -> None:
        self.constraint = constraint
        self.states = [constraint.begin() for _ in range(rows)]
        self.length: int | None = None

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if self.length is not None:
            for state, token in zip(self.states, input_ids[:, -1].tolist(), strict=True):
                if not state.is_stopped():
                    state.consume_token(token)
        self.length = input_ids.shape[1]
        return self.constraint.mask(scores, self.states)
