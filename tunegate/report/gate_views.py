"""Views of what the gates saw: research, checks and samples, waivers, what nobody looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate.report.wording import value
from tunegate.types import Json

SAMPLES = 3


def research(found: Json | None) -> Json | None:
    """Gate 1: verdict, problems, questions with their answers, and what the test set can show."""
    if not found:
        return None
    contract = found.get("evaluation") or {}
    return {
        "verdict": found.get("verdict", "cannot_tell"),
        "problems": found.get("problems") or [],
        "warnings": found.get("warnings") or [],
        "questions": found.get("questions") or [],
        "issues": found.get("known_issues") or [],
        "smallest_difference": contract.get("smallest_detectable_difference"),
        "method": contract.get("method"),
        "assumed": contract.get("assumed") or {},
        "rows": contract.get("n_test"),
    }


def gates(run: Mapping[str, Any]) -> list[Json]:
    """Gate 2: every verdict, with whether it was waived."""
    waived = (run["release"] or {}).get("waived") or {}
    out = []
    for verdict in run["verdicts"] or []:
        out.append(
            {
                "check": verdict["check"],
                "status": verdict["status"],
                "summary": verdict["summary"],
                "findings": verdict.get("findings") or [],
                "warnings": verdict.get("warnings") or [],
                "not_checked": verdict.get("not_checked") or [],
                "hint": verdict.get("hint"),
                "waived": waived.get(verdict["check"]),
                "samples": [_sample(item) for item in (verdict.get("samples") or [])[:SAMPLES]],
            }
        )
    return out


def _sample(sample: Mapping[str, Any]) -> Json:
    """Spans where there are some, else whatever the check kept, as name and value."""
    where = sample.get("where") or (f"line {sample['line']}" if "line" in sample else None)
    spans = sample.get("spans")
    if spans is None and sample.get("supervised_text"):
        spans = [
            {"text": "… ", "trained": False},
            {"text": sample["supervised_text"], "trained": True},
        ]
        if "tokens" in sample and "supervised_tokens" in sample:
            where = f"{where}: {sample['supervised_tokens']} of {sample['tokens']} tokens"
    if spans:
        return {
            "where": where,
            "spans": [{"text": str(s["text"]), "trained": bool(s["trained"])} for s in spans],
            "pairs": [],
        }
    return {
        "where": where,
        "spans": [],
        "pairs": [
            (str(key), value(item))
            for key, item in sample.items()
            if key not in ("where", "line", "index") and item is not None
        ],
    }


def not_checked(run: Mapping[str, Any]) -> list[Json]:
    """What each check says it did not look at, and the parts that were never run."""
    out = [
        {"check": verdict["check"], "texts": list(verdict["not_checked"])}
        for verdict in run["verdicts"] or []
        if verdict.get("not_checked")
    ]
    names = {
        "research": "gate 1, research",
        "wire": "the wire test",
        "quote": "the quote",
        "release": "the release",
        "receipt": "the receipt of a training",
    }
    missing = [text for name, text in names.items() if not run[name]]
    if not run["verdicts"]:
        missing.insert(0, "every check of gate 2")
    if missing:
        out.append({"check": "not run", "texts": missing})
    return out


def waivers(release: Json | None) -> Json | None:
    """Who released at what level, and each check that was waived with its reason."""
    if not release:
        return None
    return {
        "level": release.get("level"),
        "why": release.get("why"),
        "approver": release.get("approver"),
        "decision": release.get("decision"),
        "ceiling": release.get("money_ceiling"),
        "waived": sorted((release.get("waived") or {}).items()),
    }
