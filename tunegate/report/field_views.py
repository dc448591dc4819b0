"""Views by field of a JSON answer, and of the answers that give nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tunegate.compare.lookup import table
from tunegate.report.wording import title
from tunegate.types import Json

ALL = "all fields"
EMPTY = "empty answer"


def by_field(report: Json) -> Json | None:
    """`rows` with a bar a column, most frequent field first, and what one answer to all reaches.

    Each row is {field, n, bars [{column, title, right, recall, counts}]}; the empty answer, whose n
    are rows and not values, is `empty`, and all fields together are `all`. None where no column has
    fields.
    """
    tables = {
        name: found
        for name in report["columns"]
        if (found := (table(report, name) or {}).get("strict", {}).get("fields"))
    }
    if not tables:
        return None
    names = dict.fromkeys(name for item in tables.values() for name in item["fields"])
    rows = [
        _row(name, {column: t["fields"].get(name) for column, t in tables.items()})
        for name in names
    ]
    rows.sort(key=lambda row: (-row["n"], row["field"]))
    empty = _row(EMPTY, {column: t["empty"] for column, t in tables.items()})
    return {
        "columns": list(tables),
        "rows": [row for row in rows if row["n"]],
        "unknown": [row for row in rows if not row["n"]],
        "all": _row(ALL, {column: t["all"] for column, t in tables.items()}),
        "empty": empty
        if empty["n"] or any(bar["counts"]["said"] for bar in empty["bars"])
        else None,
        "answers": max(t["n"] for t in tables.values()),
    }


def _row(name: str, by_column: dict[str, Json | None]) -> Json:
    bars = [
        {
            "column": column,
            "title": title(column),
            "right": (counts or NONE)["right"],
            "recall": (counts or NONE)["recall"],
            "counts": counts or NONE,
        }
        for column, counts in by_column.items()
    ]
    return {"field": name, "n": max(bar["counts"]["gold"] for bar in bars), "bars": bars}


NONE: Json = {
    **dict.fromkeys(("gold", "said", "right", "wrong", "missed", "hallucinated"), 0),
    "f1": None,
    "precision": {"rate": None},
    "recall": {"rate": None},
}
"""A field that the answers of a slice do not have and a column never gave."""


def volumes(part: Json) -> Iterator[Json]:
    """Counts beside the rates of fields: a model that says nothing has no field wrong."""
    found = {
        column: ((figures or {}).get("strict") or {}).get("fields")
        for column, figures in part["columns"].items()
    }
    present = [item for item in found.values() if item]
    if not present:
        return
    if present[0]["empty"]["gold"]:
        right = present[0]["empty"]["gold"]
        yield {
            "label": f"Times the empty answer was given (it is right {right} times)",
            "cells": [item["empty"]["said"] if item else None for item in found.values()],
        }
    yield {
        "label": f"Fields given (the answers have {present[0]['all']['gold']})",
        "cells": [item["all"]["said"] if item else None for item in found.values()],
    }
