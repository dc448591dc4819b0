"""Rows that the tuned column got wrong, with their texts, worst class first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.compare.fields import missteps
from tunegate.compare.tables import Slice
from tunegate.types import Json

LIMIT = 40
"""Wrong rows that are listed."""

OUTPUT_SHOWN = 400
"""Characters kept of another column's output."""


def failures(
    parts: Sequence[Slice],
    columns: Mapping[str, Mapping[str, Json] | None],
    scores: Mapping[str, Mapping[str, list[Json]]],
    right: Mapping[str, Mapping[str, Sequence[bool]]],
    *,
    column: str,
) -> tuple[list[Json], dict[str, int]]:
    """(rows, number of wrong rows by slice); strict reading, at most `LIMIT` rows.

    `parts` come in the order in which their rows are wanted. `scores[slice][metric]` are the
    column's; `right[slice][column]` tells what the others did with the row.
    """
    out: list[Json] = []
    totals = {}
    for part in parts:
        wrong = [index for index, ok in enumerate(right[part.name][column]) if not ok]
        totals[part.name] = len(wrong)
        classes = [_class(part, scores[part.name], index) for index in range(len(part.gold))]
        errors = Counter(classes[index] for index in wrong)
        wrong = [
            index for _, _, index in sorted((-errors[classes[i]], classes[i], i) for i in wrong)
        ]
        out += [
            _row(part, columns, scores[part.name], right[part.name], index, column=column)
            for index in wrong
        ]
    return out[:LIMIT], totals


def _class(part: Slice, scores: Mapping[str, list[Json]], index: int) -> str:
    if "label" in scores:
        return str(scores["label"][index]["gold"])
    return str(part.gold[index].get("kind") or "")


def _by_field(part: Slice, scores: Mapping[str, list[Json]]) -> bool:
    # Where rows are told apart by class, the field that is wrong is the class.
    return part.primary == "exact" and "fields" in scores


def _row(
    part: Slice,
    columns: Mapping[str, Mapping[str, Json] | None],
    scores: Mapping[str, list[Json]],
    right: Mapping[str, Sequence[bool]],
    index: int,
    *,
    column: str,
) -> Json:
    gold = part.gold[index]
    output = (columns[column] or {})[gold["id"]]
    primary = scores[part.primary][index]
    said: Any = primary.get("said")
    return {
        "id": gold["id"],
        "slice": part.name,
        "kind": gold.get("kind"),
        "class": _class(part, scores, index) or None,
        "text": gold.get("text"),
        "gold": gold.get("answer") if part.kind == "class" else gold.get("check"),
        "output": output["output"],
        "finish": output.get("finish"),
        "said": said["strict"] if said else None,
        "broken": primary.get("broken"),
        "fields": missteps(scores["fields"][index]) if _by_field(part, scores) else None,
        "tolerant_right": bool(primary["tolerant"]),
        "others": {
            name: {
                "right": bool(flags[index]),
                "output": _cut((columns[name] or {})[gold["id"]]["output"]),
            }
            for name, flags in right.items()
            if name != column
        },
    }


def _cut(text: str) -> str:
    return text if len(text) <= OUTPUT_SHOWN else text[: OUTPUT_SHOWN - 1] + "…"
