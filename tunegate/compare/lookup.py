"""Finding figures in a report that `compare` made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate.types import Json


def table(report: Mapping[str, Any], column: str, slice_name: str | None = None) -> Json | None:
    """The figures of a column on a slice (the main one by default); None where it was not run."""
    found: Json | None = report["slices"][slice_name or report["main"]]["columns"].get(column)
    return found


def pair(
    report: Mapping[str, Any],
    other: str,
    *,
    slice_name: str | None = None,
    reading: str = "strict",
) -> Json | None:
    """The paired comparison of tuned with another column; None where one of them was not run."""
    wanted = (other, slice_name or report["main"], reading)
    for item in report["pairs"]:
        if (item["b"], item["slice"], item["reading"]) == wanted:
            found: Json = item
            return found
    return None


def teacher_gain(report: Mapping[str, Any], reading: str = "strict") -> Json | None:
    """The teacher against the base on the main slice; None where it says nothing.

    That is where one of them was not run, and where the teacher's answers are the gold.
    """
    if report["gold"]["teacher_defines_gold"]:
        return None
    found: Json | None = (report.get("yardstick") or {}).get(reading)
    return found


def other_slices(report: Mapping[str, Any]) -> list[str]:
    """The slices beside the main one, in order."""
    return [name for name in report["slices"] if name != report["main"]]
