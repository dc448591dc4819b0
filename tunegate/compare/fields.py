"""The figures of one column by field of a JSON answer, and of the empty answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.compare.statistics import micro_f1, rate
from tunegate.metrics import fields
from tunegate.types import Json


def field_table(scores: Sequence[Json], *, reading: str, confidence: float) -> Json | None:
    """{n, fields {field: counts}, all, empty, f1}; None where no answer is an object.

    Counts are those of the metric `fields`, with precision and recall as rates with intervals.
    `all` adds them up over the fields, `empty` counts the rows that give nothing, and `f1` is the
    F1 over all fields with its interval. An output that gives nothing has no field wrong, so
    `empty` and the number of fields said belong beside every precision.
    """
    counted = [item for item in scores if item["gold"] is not None]
    if not counted:
        return None
    summary = fields.summarise(counted)[reading]
    return {
        "n": len(counted),
        "fields": {
            name: _with_intervals(counts, confidence=confidence)
            for name, counts in summary["fields"].items()
        },
        "all": _with_intervals(summary["all"], confidence=confidence),
        "empty": _with_intervals(summary["empty"], confidence=confidence),
        "f1": micro_f1(
            [len(item["gold"]) for item in counted],
            [len(item[reading]["said"]) for item in counted],
            [len(item[reading]["right"]) for item in counted],
            confidence=confidence,
        ),
    }


def _with_intervals(counts: Mapping[str, Any], *, confidence: float) -> Json:
    return {
        **counts,
        "precision": rate(counts["right"], counts["said"], confidence=confidence),
        "recall": rate(counts["right"], counts["gold"], confidence=confidence),
    }


def missteps(score: Mapping[str, Any]) -> Json | None:
    """What one output got wrong, read strictly: {wrong, missed, hallucinated}, names of fields."""
    if score["gold"] is None:
        return None
    gold, said, right = (
        set(names) for names in (score["gold"], score["strict"]["said"], score["strict"]["right"])
    )
    return {
        "wrong": sorted((gold & said) - right),
        "missed": sorted(gold - said),
        "hallucinated": sorted(said - gold),
    }
