"""What a reader of the figures has to know before believing them."""

from __future__ import annotations

from collections.abc import Iterator

from tunegate.compare.lookup import other_slices, pair
from tunegate.compare.wording import accuracy, counted, gap
from tunegate.types import Json

NAMES = {"raw": "the base", "tuned": "the tuned model", "teacher": "the teacher"}
TRUNCATED = 0.01
"""Share of outputs cut by the length limit above which a column is not graded fairly (AR-4)."""
GAP = 0.02
"""Difference of the two readings above which it has to be explained (AR-4)."""


def cautions(report: Json) -> list[Json]:
    """{name, column, slice, message} each; columns and slices are null where all are meant."""
    return [
        *_columns(report),
        *_readings(report),
        *_no_skill(report),
        *_losses(report),
    ]


def _caution(
    name: str, message: str, *, column: str | None = None, slice_name: str | None = None
) -> Json:
    return {"name": name, "column": column, "slice": slice_name, "message": message}


def _columns(report: Json) -> Iterator[Json]:
    for name, about in report["columns"].items():
        if about is None:
            yield _caution("not_run", f"The {name} column was not run.", column=name)
    for item in report["not_run"]:
        yield _caution(
            "not_run",
            f"The {item['column']} column has no answers for the slice {item['slice']}.",
            column=item["column"],
            slice_name=item["slice"],
        )
    if report["gold"]["teacher_defines_gold"]:
        yield _caution(
            "teacher_is_gold",
            "The teacher's own answers are the gold: its column measures agreement with itself, "
            "and what it gets wrong counts as right here.",
            column="teacher",
        )
    same = report["same_outputs"]
    if same is not None and same["same"] == same["n"]:
        yield _caution(
            "same_outputs",
            f"All {same['n']} outputs of the tuned column are the base's, letter for letter: the "
            "adapter may not have been applied.",
            column="tuned",
        )


def _readings(report: Json) -> Iterator[Json]:
    for slice_name, part in report["slices"].items():
        for column, table in part["columns"].items():
            if table is None:
                continue
            cut = table["truncated"]
            if cut["n"] and cut["rate"] > TRUNCATED:
                yield _caution(
                    "truncated",
                    f"{counted(cut)} outputs of {NAMES.get(column, column)} on {slice_name} were "
                    "cut by the length limit; they may have been right, had they been let finish.",
                    column=column,
                    slice_name=slice_name,
                )
            if table["gap"] > GAP:
                yield _caution(
                    "format_gap",
                    f"On {slice_name}, {NAMES.get(column, column)} is right in {accuracy(table)} "
                    f"read strictly and in {accuracy(table, 'tolerant')} read tolerantly: there "
                    "the answer is right and its form is not.",
                    column=column,
                    slice_name=slice_name,
                )


def _no_skill(report: Json) -> Iterator[Json]:
    """A tuned model that does no better than one answer to everything, such as saying nothing."""
    part = report["slices"][report["main"]]
    majority, tuned = part["majority"], part["columns"].get("tuned")
    if majority is None or tuned is None:
        return
    found = tuned["strict"]["accuracy"]
    if found["right"] <= majority["right"]:
        yield _caution(
            "no_skill",
            f"On {report['main']} the tuned model is right in {counted(found)} rows; always "
            f"answering \u201c{majority['class']}\u201d would be right in {majority['right']}.",
            column="tuned",
            slice_name=report["main"],
        )


def _losses(report: Json) -> Iterator[Json]:
    for slice_name in other_slices(report):
        found = pair(report, "raw", slice_name=slice_name)
        if found is not None and found["significant"] and found["difference"] < 0:
            yield _caution(
                "slice_loss",
                f"On {slice_name} the tuned model is worse than the base: {gap(found)}.",
                column="tuned",
                slice_name=slice_name,
            )
