"""Schema adherence: share of outputs that a program could consume.

Unit: share of rows; range 0 to 1. Strict: the whole output is one value that fits the schema (json)
or is a label as it is spelt (label). Tolerant: such a value can be found in it. Says nothing about
whether the answer is right. Not counted (null) for free text, which has no schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.metrics import _reading
from tunegate.types import Json

NAME = "schema"
DIRECTION = "higher"


def score(output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
    """`strict` and `tolerant`: the output fits; null where the task is free text."""
    strict, tolerant = _reading.read(output, task)
    return {"strict": strict.fits, "tolerant": strict.fits or tolerant.fits}


def summarise(scores: Sequence[Mapping[str, Any]]) -> Json:
    """`n`, `strict` and `tolerant` {right, rate}, `gap` (tolerant minus strict)."""
    return _reading.tally(scores)
