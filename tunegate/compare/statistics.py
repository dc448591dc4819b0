"""Intervals and tests. Counts in, plain numbers out; the bootstrap draws from a fixed seed.

**Sources**: Wilson interval: E. B. Wilson 1927, through scipy. Paired difference: R. G. Newcombe,
Statistics in Medicine 17 (1998) 2635-2650, method 10, square-and-add of two Wilson intervals with
the continuity-corrected correlation. Paired test: exact McNemar, the sign test on the rows in which
the columns differ, through scipy. F1, macro and over fields: percentile bootstrap over rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tunegate.types import Json

RESAMPLES = 2000
"""Bootstrap resamples, enough that a limit moves by some tenths of a point with the seed."""
SEED = 0
CELLS = 4_000_000
"""Draws held in memory at once."""


def rate(right: int, n: int, *, confidence: float) -> Json:
    """{right, n, rate, low, high}: a share with its Wilson interval; null where n is 0."""
    if n == 0:
        return {"right": 0, "n": 0, "rate": None, "low": None, "high": None}
    low, high = wilson(right, n, confidence=confidence)
    return {"right": right, "n": n, "rate": right / n, "low": low, "high": high}


@lru_cache(maxsize=4096)
def wilson(right: int, n: int, *, confidence: float) -> tuple[float, float]:
    """Wilson score interval of right / n, n > 0."""
    from scipy.stats import binomtest

    limits = binomtest(right, n).proportion_ci(confidence_level=confidence, method="wilson")
    # Rounding leaves limits a hair off 0 and 1, and off the rate itself.
    return min(max(0.0, float(limits.low)), right / n), max(min(1.0, float(limits.high)), right / n)


def mcnemar(only_a: int, only_b: int) -> float:
    """Two-sided p of the exact McNemar test: rows that only a, only b got right."""
    from scipy.stats import binomtest

    if only_a + only_b == 0:
        return 1.0
    return float(binomtest(only_a, only_a + only_b, 0.5).pvalue)


def paired_difference(
    both: int, only_a: int, only_b: int, neither: int, *, confidence: float
) -> tuple[float, float, float]:
    """(difference, low, high) of a's rate minus b's over the same rows, at least one."""
    n = both + only_a + only_b + neither
    right_a, right_b = both + only_a, both + only_b
    rate_a, rate_b = right_a / n, right_b / n
    low_a, high_a = wilson(right_a, n, confidence=confidence)
    low_b, high_b = wilson(right_b, n, confidence=confidence)
    margins = right_a * (n - right_a) * right_b * (n - right_b)
    phi = 0.0
    if margins:
        product = both * neither - only_a * only_b
        # Newcombe's correction moves a positive correlation towards 0, never past it.
        corrected = max(product - n / 2, 0.0) if product > 0 else float(product)
        phi = corrected / math.sqrt(margins)
    difference = rate_a - rate_b
    below = _add_squares(rate_a - low_a, high_b - rate_b, phi)
    above = _add_squares(high_a - rate_a, rate_b - low_b, phi)
    return difference, max(-1.0, difference - below), min(1.0, difference + above)


def _add_squares(left: float, right: float, phi: float) -> float:
    return math.sqrt(max(0.0, left**2 - 2 * phi * left * right + right**2))


def macro_f1(gold: Sequence[str], said: Sequence[str], *, confidence: float) -> Json:
    """{value, low, high}: mean F1 over the classes of `gold`, each counting the same.

    `gold[i]` and `said[i]` belong to row i; at least one row. A class that a resample neither holds
    nor names is left out of that resample's mean.
    """
    value, low, high = _macro_f1(tuple(gold), tuple(said), confidence)
    return {"value": value, "low": low, "high": high}


def micro_f1(
    gold: Sequence[int], said: Sequence[int], right: Sequence[int], *, confidence: float
) -> Json:
    """{value, low, high}: F1 over all fields of all rows, where row i has `gold[i]` fields.

    `said[i]` of them were given and `right[i]` right. All are null where there is no field at all.
    """
    import numpy as np

    counts_3N = np.array([gold, said, right], dtype=np.int64)
    total = counts_3N.sum(axis=1)
    if total[0] + total[1] == 0:
        return {"value": None, "low": None, "high": None}
    value = float(2 * total[2] / (total[0] + total[1]))
    generator = np.random.default_rng(SEED)
    found = []
    rows_at_once = max(1, CELLS // len(gold))
    for start in range(0, RESAMPLES, rows_at_once):
        size = min(rows_at_once, RESAMPLES - start)
        picks_RN = generator.integers(0, len(gold), size=(size, len(gold)))
        gold_R, said_R, right_R = (counts_N[picks_RN].sum(axis=1) for counts_N in counts_3N)
        has_fields_R = gold_R + said_R > 0
        found.append(2 * right_R[has_fields_R] / (gold_R + said_R)[has_fields_R])
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(found), [tail, 1 - tail])
    return {"value": value, "low": min(float(low), value), "high": max(float(high), value)}


@lru_cache(maxsize=64)  # the two readings of a column are often the same
def _macro_f1(
    gold: tuple[str, ...], said: tuple[str, ...], confidence: float
) -> tuple[float, float, float]:
    import numpy as np

    labels = sorted(set(gold))
    place = {label: index for index, label in enumerate(labels)}
    gold_N = np.array([place[label] for label in gold])
    said_N = np.array([place.get(label, len(labels)) for label in said])
    generator = np.random.default_rng(SEED)
    value = float(_mean_f1(gold_N[None], said_N[None], len(labels))[0])
    means = []
    rows_at_once = max(1, CELLS // len(gold))
    for start in range(0, RESAMPLES, rows_at_once):
        size = min(rows_at_once, RESAMPLES - start)
        picks_RN = generator.integers(0, len(gold), size=(size, len(gold)))
        means.append(_mean_f1(gold_N[picks_RN], said_N[picks_RN], len(labels)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    # A percentile interval of few rows may leave out the estimate, which no reader expects.
    return value, min(float(low), value), max(float(high), value)


def _mean_f1(gold_RN: Any, said_RN: Any, classes: int) -> Any:
    """Mean F1 of each resample: int [R, N] twice -> float [R]; `classes` is "no such class"."""
    import numpy as np

    resamples = gold_RN.shape[0]
    base = np.arange(resamples)[:, None] * (classes + 1)

    def count(values_RN: Any, keep_RN: Any = None) -> Any:
        cells = (values_RN + base)[keep_RN] if keep_RN is not None else (values_RN + base).ravel()
        table = np.bincount(cells, minlength=resamples * (classes + 1))
        return table.reshape(resamples, classes + 1)[:, :classes]

    total = count(gold_RN) + count(said_RN)
    right = count(gold_RN, gold_RN == said_RN)
    with np.errstate(invalid="ignore"):
        return np.nanmean(2 * right / total, axis=1)
