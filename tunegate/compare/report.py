"""`compare`: the payload of `report.json`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tunegate.compare.cautions import cautions
from tunegate.compare.failures import failures
from tunegate.compare.pairs import INTERVAL, TEST, paired
from tunegate.compare.statistics import RESAMPLES, rate
from tunegate.compare.tables import Slice, column_table, primary_metric, score_rows
from tunegate.compare.verdict import verdict
from tunegate.errors import EvalError, Problem
from tunegate.metrics import READINGS, _reading
from tunegate.types import Json

MAIN = "test"
"""The slice that the verdict is about."""
TUNED = "tuned"
COLUMNS = ("raw", TUNED, "teacher")
"""The columns of every report; one that is not given was not run."""
LISTED = 20
"""Row ids that an error names."""

Columns = Mapping[str, Mapping[str, Json] | None]


def index_rows(rows: Iterable[Json], *, column: str) -> dict[str, Json]:
    """The rows of one column by id.

    Raises:
        EvalError: an id stands twice.
    """
    out: dict[str, Json] = {}
    twice = []
    for row in rows:
        if row["id"] in out:
            twice.append(row["id"])
        out[row["id"]] = row
    if twice:
        raise EvalError(
            f"column {column} has {len(twice)} rows twice: {_listed(twice)}",
            hint=f"delete eval/{column}.jsonl and evaluate the column again",
            problems=[Problem(f"row {item} was answered twice") for item in twice],
        )
    return out


def compare(
    columns: Columns, gold: Sequence[Json], frozen: Json, *, notes: Json | None = None
) -> Json:
    """The report of a run.

    Args:
        columns: column name (`raw`, `tuned`, `teacher`) to its rows by id, each {id, output,
            finish?, tokens?, prompt_tokens?}; None, or left out, for a column that was not run.
        gold: the evaluation rows {id, slice, answer or check, class?, kind?, text}.
        frozen: `frozen.json`; its `settings.task` and `settings.eval` are read.
        notes: what is known beside the rows: `columns` {name: any of chosen (prompt, shots,
            constrained), candidates, model, money, currency, seconds, settings_digest}, `gold` (who
            wrote the answers), `teacher_defines_gold` (else `settings.eval.teacher.defines_gold`).

    Raises:
        EvalError: rows missing, unknown or double; columns made with different settings.
        DataError: a gold row without a usable answer or check.
    """
    notes = notes or {}
    columns = {**dict.fromkeys(COLUMNS), **columns}
    settings = frozen["settings"]
    task, confidence = settings["task"], float(settings["eval"].get("confidence", 0.95))
    parts = _slices(gold, settings)
    not_run = _check_rows(columns, parts)
    _check_settings(columns, notes)
    scores: dict[str, dict[str, dict[str, list[Json]]]] = {}
    slices: Json = {}
    pairs: list[Json] = []
    for part in parts:
        scores[part.name] = own = {
            name: score_rows(part, rows, task)
            for name, rows in columns.items()
            if rows is not None and (name, part.name) not in not_run
        }
        slices[part.name] = _slice_table(part, columns, own, task, confidence=confidence)
        pairs += _pairs(part, own, confidence=confidence)
    report: Json = {
        "name": frozen.get("name"),
        "main": MAIN,
        "confidence": confidence,
        "labels": _labels(task, slices),
        "escape": task.get("escape"),
        "columns": {name: _about(name, rows, notes) for name, rows in columns.items()},
        "not_run": [{"column": name, "slice": part} for name, part in sorted(not_run)],
        "slices": slices,
        "pairs": pairs,
        "methods": _methods(confidence),
        "thresholds": _thresholds(settings["eval"]),
        "gold": {
            "about": notes.get("gold"),
            "teacher_defines_gold": _teacher_defines_gold(settings["eval"], notes),
        },
        "yardstick": _yardstick(parts, scores, confidence=confidence),
        "same_outputs": _same_outputs(columns, parts),
    }
    report["failures"], report["failures_total"] = _failures(columns, parts, scores)
    report["warnings"] = cautions(report)
    report["verdict"] = verdict(report)
    report["headline"] = report["verdict"]["sentence"]
    return report


def _slices(gold: Sequence[Json], settings: Json) -> list[Slice]:
    twice = [item for item, count in Counter(row["id"] for row in gold).items() if count > 1]
    if twice:
        raise EvalError(f"the evaluation set has {len(twice)} ids twice: {_listed(twice)}")
    about = settings["eval"].get("slices") or {}
    # The main slice first, the others in the order of the run file.
    order = [MAIN, *about, *(row["slice"] for row in gold)]
    out = []
    for name in dict.fromkeys(order):
        rows = tuple(row for row in gold if row["slice"] == name)
        if not rows:
            raise EvalError(f"the evaluation set has no rows of {name}")
        kind = (about.get(name) or {}).get("kind") or ("rule" if "check" in rows[0] else "class")
        metric = (about.get(name) or {}).get("metric") or primary_metric(kind, settings["task"])
        out.append(Slice(name=name, kind=kind, gold=rows, primary=metric))
    return out


def _check_rows(columns: Columns, parts: Sequence[Slice]) -> set[tuple[str, str]]:
    """Columns and slices that were not run.

    Only a column other than raw and tuned may leave a slice out: a teacher's answers are often
    recorded elsewhere and for the main slice only. Half a slice is never accepted, nor the main
    slice left out.
    """
    not_run = set()
    problems = []
    wanted = {row["id"] for part in parts for row in part.gold}
    for name, rows in columns.items():
        if rows is None:
            continue
        for part in parts:
            missing = [row["id"] for row in part.gold if row["id"] not in rows]
            if len(missing) == len(part.gold) and name not in ("raw", TUNED) and part.name != MAIN:
                not_run.add((name, part.name))
            elif missing:
                problems.append(
                    f"column {name} lacks {len(missing)} of {len(part.gold)} rows of "
                    f"{part.name}: {_listed(missing)}"
                )
        unknown = sorted(set(rows) - wanted)
        if unknown:
            raise EvalError(
                f"column {name} has {len(unknown)} rows that the evaluation set does not have: "
                f"{_listed(unknown)}",
                kind="columns_differ",
                hint="the column was made from another evaluation set; evaluate it again",
            )
        problems += [
            f"column {name}, row {item}: there is no output text"
            for item, row in rows.items()
            if not isinstance(row.get("output"), str)
        ]
    if problems:
        raise EvalError(
            "; ".join(problems[:LISTED]),
            hint="run `tunegate eval` again: it answers only the rows that are missing",
            problems=[Problem(text) for text in problems],
        )
    return not_run


def _check_settings(columns: Columns, notes: Json) -> None:
    about = notes.get("columns") or {}
    digests = {
        name: about[name]["settings_digest"]
        for name, rows in columns.items()
        if rows is not None and (about.get(name) or {}).get("settings_digest")
    }
    if len(set(digests.values())) > 1:
        raise EvalError(
            "the columns were made with different evaluation settings: "
            + ", ".join(f"{name} with {digest[:12]}" for name, digest in digests.items()),
            kind="columns_differ",
            hint="evaluate all columns again under the settings that are frozen now",
        )


def _slice_table(
    part: Slice,
    columns: Columns,
    scores: Mapping[str, Mapping[str, list[Json]]],
    task: Mapping[str, Any],
    *,
    confidence: float,
) -> Json:
    tables: Json = {}
    for name, rows in columns.items():
        tables[name] = (
            column_table(part, rows, scores[name], confidence=confidence)
            if rows is not None and name in scores
            else None
        )
    return {
        "kind": part.kind,
        "metric": part.primary,
        "n": len(part.gold),
        "majority": _majority(part, scores, task, confidence=confidence),
        "columns": tables,
    }


def _majority(
    part: Slice,
    scores: Mapping[str, Mapping[str, list[Json]]],
    task: Mapping[str, Any],
    *,
    confidence: float,
) -> Json | None:
    """What always giving the slice's most frequent class or, without classes, answer would reach.

    None where nothing is given twice.
    """
    if part.kind != "class":
        return None
    labelled = next((item["label"] for item in scores.values() if "label" in item), None)
    if labelled is not None:
        given = [str(item["gold"]) for item in labelled]
    else:
        given = [_answer_text(gold, task) for gold in part.gold]
    counts = Counter(given)
    label, n = min(counts.items(), key=lambda item: (-item[1], item[0]))
    if labelled is None and n == 1:
        return None
    return {"class": label, **rate(n, len(given), confidence=confidence)}


def _answer_text(gold: Mapping[str, Any], task: Mapping[str, Any]) -> str:
    """The intended answer as text; JSON in one layout, so that equal values are equal texts."""
    value = _reading.gold_value(gold, task)
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _pairs(
    part: Slice, scores: Mapping[str, Mapping[str, list[Json]]], *, confidence: float
) -> list[Json]:
    """Tuned against every other column, in both readings."""
    if TUNED not in scores:
        return []
    return [
        paired(
            TUNED,
            other,
            {
                name: [bool(i[reading]) for i in scores[name][part.primary]]
                for name in (TUNED, other)
            },
            slice_name=part.name,
            reading=reading,
            confidence=confidence,
        )
        for other in scores
        if other != TUNED
        for reading in READINGS
    ]


def _yardstick(
    parts: Sequence[Slice],
    scores: Mapping[str, Mapping[str, Mapping[str, list[Json]]]],
    *,
    confidence: float,
) -> Json | None:
    """The teacher against the base on the main slice, by reading; None where one was not run."""
    part = next(part for part in parts if part.name == MAIN)
    if not {"raw", "teacher"} <= set(scores[MAIN]):
        return None
    out = {}
    for reading in READINGS:
        right = {
            name: [bool(item[reading]) for item in scores[MAIN][name][part.primary]]
            for name in ("raw", "teacher")
        }
        out[reading] = paired(
            "teacher", "raw", right, slice_name=MAIN, reading=reading, confidence=confidence
        )
    return out


def _labels(task: Mapping[str, Any], slices: Json) -> list[str]:
    """The classes in the order of the task, the escape class last."""
    labels = _reading.labels_of(task)
    seen = {
        label
        for part in slices.values()
        for table in part["columns"].values()
        if table is not None
        for label in table["strict"]["classes"] or {}
    }
    labels += sorted(seen - set(labels))
    if not seen:
        return []
    return sorted(labels, key=lambda label: label == task.get("escape"))


def _about(name: str, rows: Mapping[str, Json] | None, notes: Json) -> Json | None:
    if rows is None:
        return None
    about = (notes.get("columns") or {}).get(name) or {}
    return {"rows": len(rows), **about}


def _methods(confidence: float) -> Json:
    return {
        "rate": f"Wilson score interval, {confidence:.0%}",
        "f1": f"percentile bootstrap over rows, {RESAMPLES} resamples, fixed seed",
        "difference": INTERVAL,
        "test": TEST,
        "unadjusted": "Only tuned against raw on the main slice was planned ahead; the other tests "
        "are not adjusted for their number.",
    }


def _thresholds(evaluation: Json) -> Json:
    """What the run sets of the numbers that `decide` compares with."""
    own = dict(evaluation.get("decision") or {})
    if evaluation.get("smallest_change") is not None:
        own.setdefault("smallest_change", evaluation["smallest_change"])
    return own


def _teacher_defines_gold(evaluation: Json, notes: Json) -> bool:
    teacher = evaluation.get("teacher") or {}
    return bool(notes.get("teacher_defines_gold", teacher.get("defines_gold")))


def _same_outputs(columns: Columns, parts: Sequence[Slice]) -> Json | None:
    """Rows of the main slice that raw and tuned answer with the very same text."""
    raw, tuned = columns.get("raw"), columns.get(TUNED)
    if raw is None or tuned is None:
        return None
    ids = [row["id"] for part in parts if part.name == MAIN for row in part.gold]
    return {"n": len(ids), "same": sum(raw[i]["output"] == tuned[i]["output"] for i in ids)}


def _failures(
    columns: Columns,
    parts: Sequence[Slice],
    scores: Mapping[str, Mapping[str, Mapping[str, list[Json]]]],
) -> tuple[list[Json], dict[str, int]]:
    if columns.get(TUNED) is None:
        return [], {}
    right = {
        part.name: {
            name: [bool(item["strict"]) for item in by_metric[part.primary]]
            for name, by_metric in scores[part.name].items()
        }
        for part in parts
    }
    own = {part.name: scores[part.name][TUNED] for part in parts}
    return failures(parts, columns, own, right, column=TUNED)


def _listed(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - LISTED} more" if len(ids) > LISTED else ""
    return ", ".join(ids[:LISTED]) + more
