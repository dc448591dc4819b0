"""Class accuracy, with the counts by class and the confusion matrix behind it.

Unit: share of rows whose class is right; range 0 to 1. An output in which no class can be read
counts as `(unreadable)`, one that names a class which the task does not have as `(other)`; both are
wrong, and both are columns of the confusion matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.errors import DataError
from tunegate.metrics import READINGS, _reading
from tunegate.types import Json

NAME = "label"
DIRECTION = "higher"


def score(output: str, gold: Mapping[str, Any], task: Mapping[str, Any]) -> Json:
    """`strict`, `tolerant`: the class is right; `gold`, `said` {strict, tolerant}: the classes."""
    wanted = _reading.gold_class(gold, task)
    if wanted is None:
        raise DataError("the row has no class, and the task names no pointer to one")
    known = set(_reading.labels_of(task)) | {wanted}
    said = {}
    for name, reading in zip(READINGS, _reading.read(output, task), strict=True):
        label = reading.label
        if label is None:
            said[name] = _reading.UNREADABLE
        else:
            said[name] = label if label in known else _reading.OTHER
    if said["strict"] == wanted:  # a gold class that the task does not name can be respelt
        said["tolerant"] = wanted
    return {
        "strict": said["strict"] == wanted,
        "tolerant": said["tolerant"] == wanted,
        "gold": wanted,
        "said": said,
    }


def summarise(scores: Sequence[Mapping[str, Any]]) -> Json:
    """As `exact`, and for each reading `classes` {class: {n, right, said}} and `confusion`.

    `confusion` is sparse: {intended class: {class that was said: rows}}.
    """
    out = _reading.tally(scores)
    for name in READINGS:
        classes: dict[str, dict[str, int]] = {}
        confusion: dict[str, dict[str, int]] = {}
        for item in scores:
            wanted, said = item["gold"], item["said"][name]
            for label in (wanted, said):
                classes.setdefault(label, {"n": 0, "right": 0, "said": 0})
            classes[wanted]["n"] += 1
            classes[wanted]["right"] += said == wanted
            classes[said]["said"] += 1
            row = confusion.setdefault(wanted, {})
            row[said] = row.get(said, 0) + 1
        out[name]["classes"] = {
            label: counts
            for label, counts in sorted(classes.items())
            if label not in (_reading.UNREADABLE, _reading.OTHER)
        }
        out[name]["confusion"] = {
            label: dict(sorted(row.items())) for label, row in sorted(confusion.items())
        }
    return out
