"""The figures of one column on one slice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tunegate import metrics
from tunegate.compare.fields import field_table
from tunegate.compare.statistics import macro_f1, rate
from tunegate.metrics import READINGS
from tunegate.types import Json


@dataclass(frozen=True)
class Slice:
    """The gold rows of one slice, and how they are scored."""

    name: str
    kind: str
    """`class` (compared with an answer) or `rule` (checked by rules)."""
    gold: tuple[Json, ...]
    primary: str
    """Metric whose `strict` and `tolerant` say whether a row is right."""


def primary_metric(kind: str, task: Mapping[str, Any]) -> str:
    """The metric that decides about a row: rule, label where the task has classes, else exact."""
    if kind == "rule":
        return "rule"
    return "label" if task.get("class") is not None or task.get("answer") == "label" else "exact"


def metrics_of(part: Slice, task: Mapping[str, Any]) -> list[str]:
    """Names of the metrics that are computed for a slice, the primary one first."""
    out = [part.primary]
    if part.kind == "class":
        out += ["exact", "schema"]
        if task.get("escape") is not None and "label" in out:
            out.append("escape")
        if task.get("answer") == "json":
            out.append("fields")
    return list(dict.fromkeys(out))


def score_rows(
    part: Slice, rows: Mapping[str, Json], task: Mapping[str, Any]
) -> dict[str, list[Json]]:
    """Scores by metric, each a list in the order of the slice's gold rows."""
    return {
        name: [
            metric.score(rows[gold["id"]]["output"], gold, task)
            for metric in (metrics.load(name),)
            for gold in part.gold
        ]
        for name in metrics_of(part, task)
    }


def column_table(
    part: Slice, rows: Mapping[str, Json], scores: Mapping[str, list[Json]], *, confidence: float
) -> Json:
    """n, scored, truncation, tokens, and the two readings of a column on a slice."""
    outputs = [rows[gold["id"]] for gold in part.gold]
    finishes = [row["finish"] for row in outputs if row.get("finish") is not None]
    summaries = {name: metrics.load(name).summarise(items) for name, items in scores.items()}
    readings = {
        name: _reading(part, name, scores, summaries, confidence=confidence) for name in READINGS
    }
    strict, tolerant = (readings[name]["accuracy"]["rate"] for name in READINGS)
    return {
        "n": len(part.gold),
        "scored": len(scores[part.primary]),
        "missing": 0,  # a column that lacks rows is refused; a reader sees it said
        "truncated": rate(finishes.count("length"), len(finishes), confidence=confidence),
        "tokens": {
            "prompt": _total(outputs, "prompt_tokens"),
            "output": _total(outputs, "tokens"),
        },
        "gap": tolerant - strict,
        **readings,
    }


def _reading(
    part: Slice,
    reading: str,
    scores: Mapping[str, list[Json]],
    summaries: Mapping[str, Json],
    *,
    confidence: float,
) -> Json:
    right = [bool(item[reading]) for item in scores[part.primary]]
    out: Json = {"accuracy": rate(sum(right), len(right), confidence=confidence)}
    for name in ("exact", "schema"):
        summary = summaries.get(name)
        out[name] = (
            rate(summary[reading]["right"], summary["n"], confidence=confidence)
            if summary is not None and summary["n"]
            else None
        )
    label = summaries.get("label")
    out["classes"] = _classes(label[reading]["classes"], confidence=confidence) if label else None
    out["confusion"] = label[reading]["confusion"] if label else None
    out["macro_f1"] = (
        macro_f1(
            [item["gold"] for item in scores["label"]],
            [item["said"][reading] for item in scores["label"]],
            confidence=confidence,
        )
        if label
        else None
    )
    escape = summaries.get("escape")
    out["escape"] = _escape(escape[reading], confidence=confidence) if escape else None
    out["fields"] = _fields(scores, reading, part, confidence=confidence)
    out["kinds"] = _kinds(part.gold, right, confidence=confidence)
    out["broken"] = summaries["rule"].get("broken") if "rule" in summaries else None
    return out


def _classes(counts: Mapping[str, Json], *, confidence: float) -> Json:
    return {
        label: {
            "n": item["n"],
            "right": item["right"],
            "said": item["said"],
            "recall": rate(item["right"], item["n"], confidence=confidence),
            "precision": rate(item["right"], item["said"], confidence=confidence),
            "f1": 2 * item["right"] / (item["n"] + item["said"]),
        }
        for label, item in counts.items()
    }


def _escape(counts: Mapping[str, Any], *, confidence: float) -> Json:
    return {
        "gold": counts["gold"],
        "said": counts["said"],
        "right": counts["right"],
        "recall": rate(counts["right"], counts["gold"], confidence=confidence),
        "precision": rate(counts["right"], counts["said"], confidence=confidence),
    }


def _fields(
    scores: Mapping[str, list[Json]], reading: str, part: Slice, *, confidence: float
) -> Json | None:
    """By field, where the answer has more to it than the one class."""
    if "fields" not in scores:
        return None
    found = field_table(scores["fields"], reading=reading, confidence=confidence)
    if found is not None and part.primary == "label" and len(found["fields"]) <= 1:
        return None
    return found


def _kinds(gold: Sequence[Json], right: Sequence[bool], *, confidence: float) -> Json | None:
    kinds = sorted({row["kind"] for row in gold if row.get("kind")})
    if not kinds:
        return None
    out = {}
    for kind in kinds:
        hits = [ok for row, ok in zip(gold, right, strict=True) if row.get("kind") == kind]
        out[kind] = rate(sum(hits), len(hits), confidence=confidence)
    return out


def _total(outputs: Sequence[Json], key: str) -> int | None:
    values = [row[key] for row in outputs if row.get(key) is not None]
    return sum(values) if values else None
