"""Precision and recall of the escape class, the one that means "none of these".

Unit: share of rows; range 0 to 1. How often the class was said stands beside both, since a model
that always escapes has a recall of 1. Not counted where the task has no escape class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.metrics import READINGS, _reading
from tunegate.types import Json

NAME = "escape"
DIRECTION = "higher"


def score(output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
    """`gold`: the row is one to escape on; `strict` and `tolerant`: the output escapes."""
    escape = task.get("escape")
    if escape is None:
        return {"gold": None, "strict": None, "tolerant": None}
    strict, tolerant = _reading.read(output, task)
    return {
        "gold": _reading.gold_class(gold, task) == escape,
        "strict": strict.label == escape,
        "tolerant": escape in (strict.label, tolerant.label),
    }


def summarise(scores: Sequence[Mapping[str, Any]]) -> Json:
    """`n`, and for each reading {gold, said, right, precision, recall}."""
    counted = [item for item in scores if item["gold"] is not None]
    out: Json = {"n": len(counted)}
    for name in READINGS:
        gold = sum(item["gold"] for item in counted)
        said = sum(item[name] for item in counted)
        right = sum(item["gold"] and item[name] for item in counted)
        out[name] = {
            "gold": gold,
            "said": said,
            "right": right,
            "precision": _reading.share(right, said),
            "recall": _reading.share(right, gold),
        }
    return out
