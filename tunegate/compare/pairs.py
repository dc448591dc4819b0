"""Paired comparisons: the same rows, two columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tunegate.compare.statistics import mcnemar, paired_difference
from tunegate.types import Json

TEST = "exact McNemar, two-sided"
INTERVAL = "Newcombe 1998, method 10 (square-and-add of Wilson intervals, paired)"


def paired(
    a: str,
    b: str,
    right: Mapping[str, Sequence[bool]],
    *,
    slice_name: str,
    reading: str,
    confidence: float,
) -> Json:
    """Column a against column b on one slice in one reading; `difference` is a's rate minus b's.

    `right[column][i]` says whether the column got row i right, for the same rows in the same order.
    """
    counts = {(True, True): 0, (True, False): 0, (False, True): 0, (False, False): 0}
    for pair in zip(right[a], right[b], strict=True):
        counts[pair] += 1
    both, only_a = counts[True, True], counts[True, False]
    only_b, neither = counts[False, True], counts[False, False]
    difference, low, high = paired_difference(both, only_a, only_b, neither, confidence=confidence)
    p = mcnemar(only_a, only_b)
    return {
        "a": a,
        "b": b,
        "slice": slice_name,
        "reading": reading,
        "n": len(right[a]),
        "both": both,
        "only_a": only_a,
        "only_b": only_b,
        "neither": neither,
        "difference": difference,
        "low": low,
        "high": high,
        "p": p,
        "significant": p < 1 - confidence,
    }
