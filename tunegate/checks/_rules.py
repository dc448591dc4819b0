"""Rules of rows that are scored by rule: which there are and what each takes.

Scoring itself is the metric `rule`, which does not travel with the checks.
"""

from __future__ import annotations

from typing import Any

_WORDS = ("equals", "contains", "contains_any", "lacks", "starts_with", "ends_with")
_COUNTS = ("min_words", "max_words", "lines")
_CHOICES = {"choice": tuple("ABCDabcd"), "case": ("upper", "lower")}

NAMES = (*_CHOICES, *_WORDS, *_COUNTS)


def wrong_rule(check: Any) -> str | None:
    """What is wrong with a row's `check`; None where it can be scored."""
    if not isinstance(check, dict) or not check:
        return "the row has no rule to be scored by"
    for name, value in check.items():
        if name not in NAMES:
            return f"unknown rule {name!r}; the rules are {', '.join(NAMES)}"
        if not _fits(name, value):
            return f"the rule {name!r} cannot be {value!r}"
    return None


def _fits(name: str, value: Any) -> bool:
    if name in _CHOICES:
        return value in _CHOICES[name] if isinstance(value, str) else False
    if name in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    texts = value if isinstance(value, list) else [value]
    return bool(texts) and all(isinstance(text, str) and text for text in texts)
