"""Views by class and kind, the confusion matrix, and the failures."""

from __future__ import annotations

from tunegate.compare.lookup import table
from tunegate.metrics._reading import OTHER, UNREADABLE
from tunegate.report.wording import title
from tunegate.types import Json

FIRST_FAILURES = 8
"""Failures that are open on the page; the others are a click away."""


def sorted_by(report: Json) -> str | None:
    """The column whose weakest class stands first: the tuned one where it was run."""
    for name in ("tuned", "raw", "teacher"):
        if (table(report, name) or {}).get("strict", {}).get("classes"):
            return name
    return None


def by_class(report: Json) -> list[Json]:
    """A row a class with a bar a column, the weakest class of the column `sorted_by` first."""
    tables = {
        name: (table(report, name) or {}).get("strict", {}).get("classes")
        for name in report["columns"]
    }
    shown = tables.get(sorted_by(report) or "")
    if not shown:
        return []
    rows = []
    for label in report["labels"]:
        n = max((t[label]["n"] for t in tables.values() if t and label in t), default=0)
        if not n:
            continue
        bars = [
            {
                "column": name,
                "title": title(name),
                "right": classes[label]["right"],
                "said": classes[label]["said"],
                "f1": classes[label]["f1"],
                "precision": classes[label]["precision"]["rate"],
                "recall": classes[label]["recall"],
            }
            for name, classes in tables.items()
            if classes and label in classes
        ]
        rows.append({"label": label, "n": n, "bars": bars, "escape": label == report["escape"]})
    rows.sort(key=lambda row: (shown[row["label"]]["recall"]["rate"], row["label"]))
    return rows


def confusion(report: Json) -> Json | None:
    """The tuned column's matrix: rows are intended classes, columns what was said."""
    tuned = table(report, "tuned")
    if tuned is None or not tuned["strict"]["confusion"]:
        return None
    sparse = tuned["strict"]["confusion"]
    said = {label for row in sparse.values() for label in row}
    labels = [label for label in report["labels"] if label in sparse or label in said]
    heads = labels + [label for label in (OTHER, UNREADABLE) if label in said]
    rows = []
    for label in labels:
        row = sparse.get(label)
        if row is None:
            continue
        total = sum(row.values())
        rows.append(
            {
                "label": label,
                "n": total,
                "cells": [
                    {
                        "said": head,
                        "count": row.get(head, 0),
                        "share": row.get(head, 0) / total,
                        "right": head == label,
                    }
                    for head in heads
                ],
            }
        )
    return {"heads": heads, "rows": rows}


def kinds(report: Json, name: str) -> list[Json]:
    """Accuracy by kind of row on a slice, for every column that was run on it."""
    out: dict[str, Json] = {}
    for column, figures in report["slices"][name]["columns"].items():
        for kind, rate in ((figures or {}).get("strict", {}).get("kinds") or {}).items():
            row = out.setdefault(kind, {"kind": kind, "n": rate["n"], "bars": []})
            row["bars"].append(
                {"column": column, "title": title(column), "right": rate["right"], "recall": rate}
            )
    return list(out.values())


def broken(report: Json, name: str) -> list[Json]:
    """Rules that the outputs broke on a slice, by column."""
    counts: dict[str, dict[str, int]] = {}
    columns = report["slices"][name]["columns"]
    for column, figures in columns.items():
        for rule, rows in ((figures or {}).get("strict", {}).get("broken") or {}).items():
            counts.setdefault(rule, {})[column] = rows
    present = [column for column, figures in columns.items() if figures is not None]
    return [
        {"rule": rule, "cells": [by_column.get(column, 0) for column in present]}
        for rule, by_column in counts.items()
    ]


def failure_groups(report: Json) -> Json:
    """The tuned column's failures: those shown at once, those behind a click, and the totals."""
    # Reports of earlier versions lack the last two.
    rows = [{"others": {}, "fields": None, **row} for row in report["failures"]]
    total = sum(report["failures_total"].values())
    return {
        "first": rows[:FIRST_FAILURES],
        "rest": rows[FIRST_FAILURES:],
        "listed": len(rows),
        "total": total,
        "by_slice": report["failures_total"],
    }
