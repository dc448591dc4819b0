"""Everything a run has left behind -> one short record, and its text. Pure.

`record` takes whatever is there: a run that failed half way gets a record too, with null for what
does not exist. `markdown` renders the payload and nothing else, so that no figure is ever typed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tunegate.compare.lookup import pair
from tunegate.record.drafts import drafts
from tunegate.record.text import markdown
from tunegate.types import Json, Verdict

__all__ = ["markdown", "record"]

_RECEIPT = (
    "planned_steps",
    "steps",
    "first_loss",
    "last_loss",
    "rows_seen",
    "tokens",
    "answer_tokens",
    "adapter",
    "best",
    "effect",
    "started",
    "ended",
    "train_s",
    "peak_memory_gib",
    "step_s_median",
    "save_s_median",
    "environment",
    "worker_sha256",
    "device",
)
_CURVES = (
    "validation_minimum",
    "stalls",
    "diverged",
    "diverged_at",
    "overfit",
    "tokens_per_s",
    "rows_per_s",
    "notes",
)
_RELEASE = ("decision", "level", "approver", "why", "plan_digest", "money_ceiling")
_DECISION = (
    "next",
    "rule",
    "because",
    "classes_to_fix",
    "fields_to_fix",
    "allowed_knob",
    "knob_turns",
)
_MEMORY = ("lines", "sum_gib", "measured_gib", "ratio", "total_gib", "available_gib")
_WIRE = ("steps", "first_loss", "last_loss", "exact", "stopped", "rows", "step_s_median", "save_s")


def record(
    frozen: Json,
    *,
    research: Json | None = None,
    verdicts: Sequence[Verdict] = (),
    wire: Json | None = None,
    quote: Json | None = None,
    release: Json | None = None,
    receipt: Json | None = None,
    curves: Json | None = None,
    report: Json | None = None,
    decision: Json | None = None,
    times: Mapping[str, float] | None = None,
    cost: Mapping[str, Any] | None = None,
    attempts: Sequence[Json] = (),
    code: Mapping[str, Any] | None = None,
) -> Json:
    """The payload of record.json.

    Args:
        wire: the wire test's observation.
        curves: what `curves.read` made of the successful attempt.
        times: seconds by stage.
        cost: {"money": decimal string, "currency"} and whatever else was metered.
        attempts: {"number", "outcome"} of every attempt; the outcome of a good one is "trained",
            of another what ended it.
        code: {"commit", "dirty"} of the project that holds the run file.

    Keys: name, inputs, code, base, data, settings, gates, release, quote, training, evaluation,
    decision, times, cost, drafts.
    """
    payload = _inputs(frozen, code)
    payload["gates"] = _gates(research, verdicts, wire, release)
    payload["release"] = _only(release, _RELEASE)
    payload["quote"] = _quote(quote)
    payload["training"] = {
        "attempts": [dict(attempt) for attempt in attempts],
        "receipt": _receipt(receipt, attempts),
        "curves": _only(curves, _CURVES),
    }
    payload["evaluation"] = _evaluation(report)
    payload["decision"] = _only(decision, _DECISION)
    payload["times_s"] = {name: round(seconds, 1) for name, seconds in (times or {}).items()}
    payload["cost"] = {**(cost or {}), "quote_error": _quote_error(quote, receipt)}
    payload["drafts"] = drafts(payload)
    return payload


def _inputs(frozen: Json, code: Mapping[str, Any] | None) -> Json:
    return {
        "name": frozen["name"],
        "inputs": dict(frozen["digests"]),
        "code": dict(code) if code else None,
        "base": {key: frozen["base"][key] for key in ("model", "revision", "parameters")},
        "data": {
            name: {"rows": file["rows"], "sha256": file["sha256"]}
            for name, file in frozen["data"].items()
        },
        "settings": {key: frozen["settings"][key] for key in ("train", "limits", "platform")},
    }


def _gates(
    research: Json | None, verdicts: Sequence[Verdict], wire: Json | None, release: Json | None
) -> Json:
    return {
        "research": _research(research),
        "checks": [
            {"check": v.check, "status": str(v.status), "summary": v.summary} for v in verdicts
        ],
        "wire": _only(wire, _WIRE),
        "waived": dict((release or {}).get("waived") or {}),
    }


def _only(source: Mapping[str, Any] | None, keys: Sequence[str]) -> Json | None:
    return None if source is None else {key: source.get(key) for key in keys}


def _receipt(receipt: Json | None, attempts: Sequence[Json]) -> Json | None:
    """The receipt, its adapter's path told from the run's folder and not from the attempt's."""
    kept = _only(receipt, _RECEIPT)
    number = next((item["number"] for item in attempts if item["outcome"] == "trained"), None)
    if kept and kept["adapter"] and number is not None:
        path = f"attempts/{number}/{kept['adapter']['path']}"
        kept["adapter"] = {**kept["adapter"], "path": path}
    return kept


def _research(research: Json | None) -> Json | None:
    if research is None:
        return None
    answered = [q for q in research["questions"] if not q["open"]]
    return {
        "verdict": research["verdict"],
        "answers": [{"id": q["id"], **q["answer"]} for q in answered],
        "chosen": [
            {"key": line["key"], "value": line["value"], "reason": line["reason"]}
            for line in research["effective"]
            if line["from"] == "chosen"
        ],
        "smallest_detectable_difference": research["evaluation"]["smallest_detectable_difference"],
        "anchor": (research["anchor"] or {}).get("name"),
        "warnings": list(research["warnings"]),
    }


def _quote(quote: Json | None) -> Json | None:
    if quote is None or quote["hours"] is None:
        return None
    return {
        "hours": quote["hours"]["value"],
        "money": quote["money"]["value"],
        "currency": quote["money"]["currency"],
        "checkpoint_every_s": quote["checkpoint"]["every_s"],
        "device": quote["offer"]["device"],
        "platform": quote["offer"]["platform"],
        "basis": quote["basis"],
        "memory": _only(quote["memory"], _MEMORY),
    }


def _quote_error(quote: Json | None, receipt: Json | None) -> float | None:
    """Measured training time over the quoted one, less one; null where either is not known."""
    quoted = _quote(quote)
    train_s = (receipt or {}).get("train_s")
    if quoted is None or train_s is None or not quoted["hours"]:
        return None
    return float(round(train_s / 3600 / quoted["hours"] - 1, 3))


def _evaluation(report: Json | None) -> Json | None:
    """Accuracies by slice and column, in both readings, and the paired differences."""
    if report is None:
        return None
    slices: Json = {}
    for name, part in report["slices"].items():
        slices[name] = {
            "n": part["n"],
            "metric": part["metric"],
            "majority": part["majority"],
            "columns": {
                column: None if table is None else _column(table)
                for column, table in part["columns"].items()
            },
        }
    others = [column for column in report["columns"] if column != "tuned"]
    return {
        "main": report["main"],
        "confidence": report["confidence"],
        "columns": report["columns"],
        "slices": slices,
        "differences": [
            found
            for name in report["slices"]
            for other in others
            if (found := pair(report, other, slice_name=name)) is not None
        ],
        "verdict": report["verdict"],
        "warnings": report["warnings"],
    }


def _column(table: Json) -> Json:
    escape = table["strict"]["escape"]
    return {
        "strict": table["strict"]["accuracy"],
        "tolerant": table["tolerant"]["accuracy"],
        "schema": table["strict"]["schema"],
        "escape_recall": escape["recall"] if escape else None,
        "escape_precision": escape["precision"] if escape else None,
        "fields": table["strict"]["fields"],
        "truncated": table["truncated"],
    }
