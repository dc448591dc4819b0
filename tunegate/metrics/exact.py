"""Share of outputs that equal the intended answer as a whole.

Unit: share of rows; range 0 to 1. JSON is compared as values (key order and spacing do not count,
1 and 1.0 are equal), text as text. Tolerantly, text is compared without case, spacing and the
punctuation at its ends, also inside JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.metrics import _reading
from tunegate.types import Json

NAME = "exact"
DIRECTION = "higher"


def score(output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
    """`strict` and `tolerant`: the output is the intended answer."""
    wanted = _reading.gold_value(gold, task)
    strict, tolerant = _reading.read(output, task)
    right = strict.found and strict.fits is not False and _same(strict.value, wanted)
    # A label that is known is that one, however like another it looks without its case.
    known = task.get("answer") == "label" and bool(tolerant.fits)
    near = tolerant.value == wanted if known else _same(_loosen(tolerant.value), _loosen(wanted))
    return {"strict": right, "tolerant": right or (tolerant.found and near)}


def summarise(scores: Sequence[Mapping[str, Any]]) -> Json:
    """`n`, `strict` and `tolerant` {right, rate}, `gap` (tolerant minus strict)."""
    return _reading.tally(scores)


def _same(left: Any, right: Any) -> bool:
    # Python holds True equal to 1; JSON does not.
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


def _loosen(value: Any) -> Any:
    if isinstance(value, str):
        return _reading.loose(value)
    if isinstance(value, dict):
        return {key: _loosen(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_loosen(item) for item in value]
    return value
