"""How numbers are written in sentences: one decimal, a real minus sign, a thin space before %."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NARROW = "\u202f"
"""Narrow no-break space: a number and its unit stay on one line."""
MINUS = "\u2212"
NONE = "\u2013"
"""Where there is no number."""


def percent(value: float | None) -> str:
    """`88.7 %` of 0.887."""
    return NONE if value is None else f"{_signed(f'{100 * value:.1f}')}{NARROW}%"


def points(value: float, *, sign: bool = True) -> str:
    """`+43.7` of 0.437: a difference of shares in percentage points, without the unit."""
    return _signed(f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}")


def p_value(p: float) -> str:
    """`p < 0.001` or `p = 0.034`, which no line break parts."""
    return "p\u00a0<\u00a00.001" if p < 0.001 else f"p\u00a0=\u00a0{p:.3f}"


def many(count: int, noun: str) -> str:
    """`1 row`, `2 rows`; the noun is one that takes an s."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def interval(low: float, high: float) -> str:
    """`84.0 to 92.1` of two shares."""
    return f"{_signed(f'{100 * low:.1f}')} to {_signed(f'{100 * high:.1f}')}"


def counted(rate: Mapping[str, Any]) -> str:
    """`7 of 15`."""
    return f"{rate['right']} of {rate['n']}"


def accuracy(table: Mapping[str, Any], reading: str = "strict") -> str:
    """`88.7 %`: the accuracy of a column on a slice."""
    return percent(table[reading]["accuracy"]["rate"])


def gap(pair: Mapping[str, Any], *, sign: bool = True) -> str:
    """`+43.7 points (37.1 to 49.4, p < 0.001)`: a paired difference.

    The interval is approximate and the test exact; where they disagree, it is said which counts.
    """
    figures = f"{interval(pair['low'], pair['high'])}, {p_value(pair['p'])}"
    excludes_zero = pair["low"] > 0 or pair["high"] < 0
    if excludes_zero != pair["significant"]:
        figures += "; interval and exact test disagree, and the test decides"
    return f"{points(pair['difference'], sign=sign)} points ({figures})"


def enumerated(items: Sequence[str], *, most: int = 5) -> str:
    """`a, b and c`; what is beyond `most` is counted."""
    shown = list(items[:most])
    if len(items) > most:
        shown.append(f"{len(items) - most} more")
    return shown[0] if len(shown) == 1 else ", ".join(shown[:-1]) + " and " + shown[-1]


def _signed(text: str) -> str:
    # "-0.0" is a rounding of nothing.
    if text.lstrip("+-").strip("0.") == "":
        text = text.lstrip("+-")
    return text.replace("-", MINUS)
