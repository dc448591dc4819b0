"""Does each number lie in the band in which such runs are known to work? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate import defaults
from tunegate.research.answers import Questions
from tunegate.research.settings import value_at
from tunegate.types import Json, Status


def bands(frozen: Json, facts: Mapping[str, Json], questions: Questions) -> list[Json]:
    """Lines {"key", "value", "low", "high", "verdict", "reason", "source"}; null means no bound.

    A value outside its band raises a question; an answer with a source lets it pass.
    """
    rows = [*facts["bands"]["rows"], _learning_rate_band(frozen, facts)]
    return [_line(row, value_at(frozen, row["key"]), questions) for row in rows]


def precision(
    frozen: Json,
    facts: Mapping[str, Json],
    device: Mapping[str, object] | None,
    questions: Questions,
) -> Json | None:
    """Whether the device has instructions for the precision; None where the device is not known."""
    if device is None:
        return None
    value = frozen["settings"]["train"]["precision"]
    row = defaults.precision_row(facts, device=device)
    if row is None:
        reason, source, allowed = f"unknown kind of device: {device.get('kind')!r}", None, []
    else:
        reason, source, allowed = row["reason"], row["source"], row["allowed"]
    verdict = Status.PASS
    if value not in allowed:
        why = f"{value} is not among {', '.join(allowed) or 'what is known'}: {reason}"
        question = "why is this arithmetic right on this device?"
        if not questions.ask("train.precision", question=question, why=why, source=source):
            verdict = Status.FAIL
    return {
        "key": "train.precision",
        "value": value,
        "allowed": list(allowed),
        "verdict": str(verdict),
        "reason": reason,
        "source": source,
    }


def _learning_rate_band(frozen: Json, facts: Mapping[str, Json]) -> Json:
    train, parameters = frozen["settings"]["train"], frozen["base"]["parameters"]
    row = defaults.learning_rate_row(
        facts, method="lora", parameters=parameters, batch_size=train["batch_size"]
    )
    factor = defaults.rank_factor(facts, rank=train["lora"]["rank"])
    return {
        "key": "train.learning_rate",
        "low": float(f"{row['low'] * factor:.2g}"),
        "high": float(f"{row['high'] * factor:.2g}"),
        "question": "which measurement supports this learning rate?",
        "reason": row["reason"],
        "source": row["source"],
    }


def _line(row: Json, value: Any, questions: Questions) -> Json:
    low, high = row["low"], row["high"]
    inside = (low is None or value >= low) and (high is None or value <= high)
    verdict, reason = Status.PASS, row["reason"]
    if not inside:
        why = f"{row['key']} = {value:g} lies outside {_range(low, high)}: {reason}"
        answered = questions.ask(
            row["key"], question=row["question"], why=why, source=row["source"]
        )
        verdict = Status.PASS if answered else Status.FAIL
        reason = f"{'outside, but answered' if answered else 'outside'}: {reason}"
    return {
        "key": row["key"],
        "value": value,
        "low": low,
        "high": high,
        "verdict": str(verdict),
        "reason": reason,
        "source": row["source"],
    }


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"{low:g} and above"
    if low is None:
        return f"{high:g} and below"
    return f"{low:g} to {high:g}"
