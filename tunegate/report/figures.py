"""Views of the headline, the three columns and the paired tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tunegate.compare.lookup import table
from tunegate.compare.wording import enumerated
from tunegate.report import field_views
from tunegate.report.wording import title
from tunegate.types import Json

KIND_TITLES = {
    "gain": "Gain shown",
    "format_only": "Form only",
    "no_gain": "No gain shown",
    "worse": "Worse",
    "unmeasured": "Not measured",
}
NEXT_TITLES = {
    "serve": "Do the serving maths",
    "preference": "Run a preference pass for form",
    "data": "Improve the data",
    "one_knob": "Turn one knob",
    "stop": "Stop and find out why",
    "fix_eval": "Mend the evaluation first",
}
RULE_TITLES = {
    ("base_suffices", "stop"): "Stop: tuning adds nothing that matters to the base",
    ("worse", "stop"): "Stop and find out why it became worse",
    ("too_few_rows", "fix_eval"): "Add test rows, then evaluate again",
    ("no_gain", "data"): "Improve the data: it does not teach the task yet",
    ("general_loss", "data"): "Keep the gain and win back what was lost",
    ("slice_loss", "data"): "Add rows of the sort that was lost",
    ("still_falling", "one_knob"): "Train longer, and change nothing else",
    ("accuracy_short", "data"): "Improve the data where most goes wrong",
}
"""Titles of steps that say more with the rule that led to them."""


def headline(report: Json, run: Mapping[str, Any]) -> Json:
    """Name, verdict and next step."""
    decision, frozen = run["decision"], run["frozen"] or {}
    made = run["made"] or {}
    return {
        "name": report.get("name") or frozen.get("name") or "run",
        "kind": report["verdict"]["kind"],
        "kind_title": _kind_title(report, decision),
        "model": (frozen.get("base") or {}).get("model"),
        "framework": ((frozen.get("settings") or {}).get("train") or {}).get("framework"),
        "at": made.get("at"),
        "next_title": _next_title(decision) if decision else None,
        "decision": decision,
    }


def _kind_title(report: Json, decision: Mapping[str, Any] | None) -> str:
    """The verdict in two words, and what takes something away from a gain."""
    found = KIND_TITLES[report["verdict"]["kind"]]
    if report["verdict"]["kind"] != "gain":
        return found
    lost = [
        pair["slice"]
        for pair in report["pairs"]
        if pair["b"] == "raw"
        and pair["reading"] == "strict"
        and pair["slice"] != report["main"]
        and _direction(pair) == "down"
    ]
    if lost:
        return f"{found}, with a loss on {enumerated(lost)}"
    if decision and decision["next"] != "serve":
        return f"{found}, not yet enough"
    return found


def _next_title(decision: Mapping[str, Any]) -> str:
    step = str(decision["next"])
    return RULE_TITLES.get((decision["rule"], step), NEXT_TITLES.get(step, step))


def columns(report: Json, run: Mapping[str, Any]) -> list[Json]:
    """Each column with what it is, for the headings and the tiles.

    A teacher that was not run is no column: a caution says so, and an empty one says no more.
    """
    out = []
    for name, about in report["columns"].items():
        if about is None and name not in ("raw", "tuned"):
            continue
        figures = table(report, name)
        out.append(
            {
                "name": name,
                "title": title(name),
                "about": _about(name, about, run) if about is not None else "not run",
                "present": figures is not None,
                "accuracy": figures["strict"]["accuracy"] if figures else None,
                "seconds": (about or {}).get("seconds"),
                "money": (about or {}).get("money"),
                "currency": (about or {}).get("currency"),
                "candidates": (about or {}).get("candidates") or [],
            }
        )
    return out


def _about(name: str, about: Json, run: Mapping[str, Any]) -> str:
    chosen = about.get("chosen") or about
    if name == "raw" and chosen.get("prompt"):
        shots = chosen.get("shots") or 0
        said = [
            f"prompt “{chosen['prompt']}”",
            f"{shots} worked example{'s' if shots != 1 else ''}",
        ]
        if chosen.get("constrained"):
            said.append("decoding held to the schema")
        return ", ".join(said)
    if name == "tuned":
        best = ((run["receipt"] or {}).get("best") or {}).get("step")
        return "the serving prompt alone" + (
            f", checkpoint of step {best}" if best is not None else ""
        )
    if name == "teacher":
        return str(about.get("model") or "recorded answers")
    return str(about.get("model") or "its own answers")


def slice_table(report: Json, name: str) -> Json:
    """Rows of figures of a slice: label, and by column that was run a rate with its interval."""
    part = report["slices"][name]
    run = {column: found for column, found in part["columns"].items() if found is not None}
    part = {**part, "columns": run}
    return {
        "name": name,
        "n": part["n"],
        "kind": part["kind"],
        "majority": part["majority"],
        "columns": list(part["columns"]),
        "rows": list(_rows(part)),
        "same_readings": part["kind"] == "class" and _readings_agree(part),
        "volumes": list(_volumes(part)),
    }


def _readings_agree(part: Json) -> bool:
    """Whether reading tolerantly changes no column's accuracy, so that one row says it all."""
    return all(
        figures["strict"]["accuracy"]["right"] == figures["tolerant"]["accuracy"]["right"]
        for figures in part["columns"].values()
        if figures is not None
    )


def _rows(part: Json) -> Iterator[Json]:
    paths = [
        ("Accuracy", "strict", ("strict", "accuracy")),
        ("Accuracy, read tolerantly", "tolerant", ("tolerant", "accuracy")),
        ("Schema adherence", "schema", ("strict", "schema")),
        ("Macro F1 over classes", "macro_f1", ("strict", "macro_f1")),
        ("F1 over all fields", "field_f1", ("strict", "fields", "f1")),
        ("Empty answers: recall", "empty_recall", ("strict", "fields", "empty", "recall")),
        ("Empty answers: precision", "empty_precision", ("strict", "fields", "empty", "precision")),
        ("Recall of the escape class", "escape_recall", ("strict", "escape", "recall")),
        ("Precision of the escape class", "escape_precision", ("strict", "escape", "precision")),
    ]
    for label, key, path in paths:
        if key == "tolerant" and (part["kind"] == "rule" or _readings_agree(part)):
            continue  # rules are read in one way only
        cells = [
            {"column": column, **_cell(figures, path)}
            for column, figures in part["columns"].items()
        ]
        if any(cell["value"] is not None for cell in cells):
            yield {"label": label, "key": key, "cells": cells}


def _cell(figures: Json | None, path: tuple[str, ...]) -> Json:
    found: Any = figures
    for step in path:
        found = (found or {}).get(step)
    if not found:
        return {"value": None, "low": None, "high": None, "right": None, "n": None}
    return {
        "value": found.get("rate", found.get("value")),
        "low": found["low"],
        "high": found["high"],
        "right": found.get("right"),
        "n": found.get("n"),
    }


def _volumes(part: Json) -> Iterator[Json]:
    """Counts that belong beside the rates: a model that always escapes recalls every escape."""
    cuts = [(figures or {}).get("truncated") for figures in part["columns"].values()]
    yield {
        "label": "Outputs cut by the length limit",
        "cells": [cut["right"] if cut and cut["n"] else None for cut in cuts],
    }
    escapes = {
        column: ((figures or {}).get("strict") or {}).get("escape")
        for column, figures in part["columns"].items()
    }
    present = [item for item in escapes.values() if item]
    if present:
        yield {
            "label": f"Times the escape class was said (it is right {present[0]['gold']} times)",
            "cells": [item["said"] if item else None for item in escapes.values()],
        }
    yield from field_views.volumes(part)


def pairs(report: Json) -> list[Json]:
    """Paired differences in the order of the slices, all on one axis from -scale to +scale."""
    reach = max((max(abs(p["low"]), abs(p["high"])) for p in report["pairs"]), default=0.0)
    scale = next(step for step in (0.1, 0.25, 0.5, 0.75, 1.0) if reach <= step or step == 1.0)
    return [
        {
            **pair,
            "title": f"{title(pair['a'])} {'−'} {title(pair['b']).lower()}",
            "reading_title": "" if pair["reading"] == "strict" else "read tolerantly",
            "scale": scale,
            "at": _place(pair["difference"], scale),
            "from": _place(pair["low"], scale),
            "to": _place(pair["high"], scale),
            "direction": _direction(pair),
        }
        for pair in report["pairs"]
        if pair["reading"] == "strict"
        or (
            (part := report["slices"][pair["slice"]])["kind"] == "class"
            and not _readings_agree(part)
        )
    ]


def _place(value: float, scale: float) -> float:
    """Per cent of the axis from -scale to +scale."""
    return 50 + 50 * max(-1.0, min(1.0, value / scale))


def _direction(pair: Json) -> str:
    if not pair["significant"]:
        return "unclear"
    return "up" if pair["difference"] > 0 else "down"
