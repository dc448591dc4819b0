"""Share of outputs that keep the rules of their row: general instruction following and choices.

Unit: share of rows; range 0 to 1. A row's `check` holds one or more rules, and all must hold.
Rules are read in one way only, so `strict` and `tolerant` are always equal. Texts are compared
whatever their case; words are runs of characters between spaces.

| rule | holds when |
|---|---|
| choice | the first letter A to D that stands alone in the output is this one |
| equals | the output is one of these texts, apart from case, spacing and punctuation at its ends |
| contains | all of these occur |
| contains_any | one of these occurs |
| lacks | none of these occurs |
| min_words, max_words | there are at least, at most so many words |
| starts_with, ends_with | the output does, or does with one of these |
| case | `upper` or `lower`: it has letters, and none of the other case |
| lines | so many lines are not blank |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tunegate.errors import DataError
from tunegate.metrics import _reading
from tunegate.types import Json

NAME = "rule"
DIRECTION = "higher"

_ALONE = re.compile(r"(?<![\w'’])([A-D])(?![\w'’])")
_LONE_SMALL = re.compile(r"\W*([a-d])\W*")


def score(output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
    """`strict` and `tolerant`: every rule of `gold["check"]` holds; `broken`: those that do not.

    Raises:
        DataError: the row has no check, or one with an unknown rule or a value of the wrong type.
    """
    check = gold.get("check")
    where = None if gold.get("id") is None else str(gold["id"])
    if not isinstance(check, Mapping) or not check:
        raise DataError("the row has no check", where=where)
    text = output.strip()
    broken = []
    for name, value in check.items():
        if name not in RULES:
            raise DataError(f"unknown rule {name!r}; known: {', '.join(RULES)}", where=where)
        rule, types = RULES[name]
        texts = value if isinstance(value, list) else []
        if (
            not isinstance(value, types)
            or isinstance(value, bool)
            or not all(isinstance(item, str) for item in texts)
        ):
            raise DataError(f"rule {name!r} cannot be {value!r}", where=where)
        if not rule(text, value):
            broken.append(name)
    return {"strict": not broken, "tolerant": not broken, "broken": broken}


def summarise(scores: Sequence[Mapping[str, Any]]) -> Json:
    """As `exact`, and `broken` {rule: rows that broke it}."""
    out = _reading.tally(scores)
    broken = [name for item in scores for name in item["broken"]]
    out["broken"] = {name: broken.count(name) for name in RULES if name in broken}
    return out


def _choice(text: str, letter: str) -> bool:
    found = _ALONE.search(text)
    if found is None:
        # A small letter is taken only as the whole answer: elsewhere "a" is a word.
        small = _LONE_SMALL.fullmatch(text)
        return small is not None and small[1] == letter.lower()
    return found[1] == letter.upper()


def _case(text: str, which: str) -> bool:
    letters = [char for char in text if char.isalpha()]
    wanted = str.isupper if which == "upper" else str.islower
    # Letters of scripts without case are neither, and break no rule.
    return bool(letters) and all(wanted(char) for char in letters if char.lower() != char.upper())


def _each(value: str | list[str]) -> list[str]:
    return [item.casefold() for item in ([value] if isinstance(value, str) else value)]


def _equals(text: str, value: str | list[str]) -> bool:
    return _reading.loose(text) in [_reading.loose(item) for item in _each(value)]


RULES: dict[str, tuple[Callable[[str, Any], bool], type | tuple[type, ...]]] = {
    "choice": (_choice, str),
    "equals": (_equals, (str, list)),
    "contains": (lambda text, value: all(i in text.casefold() for i in _each(value)), (str, list)),
    "contains_any": (
        lambda text, value: any(i in text.casefold() for i in _each(value)),
        (str, list),
    ),
    "lacks": (lambda text, value: all(i not in text.casefold() for i in _each(value)), (str, list)),
    "min_words": (lambda text, value: len(text.split()) >= value, int),
    "max_words": (lambda text, value: len(text.split()) <= value, int),
    "starts_with": (
        lambda text, value: text.casefold().startswith(tuple(_each(value))),
        (str, list),
    ),
    "ends_with": (lambda text, value: text.casefold().endswith(tuple(_each(value))), (str, list)),
    "case": (_case, str),
    "lines": (lambda text, value: sum(bool(i.strip()) for i in text.splitlines()) == value, int),
}
"""Rule, and the type of its value."""
