"""Metric rows of an attempt -> validation minimum, stalls, divergence, speed. Pure.

Rows are those of `metrics.jsonl`: {"step", "t_s", "loss", "grad_norm", "learning_rate", "tokens",
"rows"} after a training step, {"step", "t_s", "validation_loss"} after a validation and {"step",
"t_s", "resumed"} where a process took up what another left. `t_s` counts the seconds that the
attempt took, lost ones included.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from tunegate.types import Json

STALL_FACTOR = 5.0
"""A gap of this many median steps is a stall."""

STALL_AT_LEAST_S = 2.0
"""Shorter gaps are the machine's noise."""

RISE = 1.5
"""Above this many times the first loss, after the warm-up, the run has diverged."""

OVERFIT = 1.05
"""Validation loss this many times above its minimum, while the training loss still falls."""

Row = Mapping[str, Any]


def read(rows: Iterable[Row], *, warmup_steps: int = 0) -> Json:
    """What the curves say.

    Keys: steps, first_loss, last_loss, validation (finite [{"step", "loss"}]), validation_minimum
    ({"step", "loss"} or null), chosen (the checkpoint to evaluate: {"step", "loss", "reason"} or
    null), stalls ([{"after_step", "seconds", "median_s"}]), diverged, diverged_at (step or null),
    overfit, tokens_per_s, rows_per_s, step_s_median, notes.
    """
    seen = list(rows)
    train = _by_step(seen, "loss")
    validation = _by_step(seen, "validation_loss")
    step_s = _step_times(seen)
    typical = median(step_s) if step_s else None
    low = _minimum(validation)
    diverged_at = _diverged_at(train, warmup_steps)
    overfit = _is_overfit(train, validation, low)
    stalls = _stalls(seen, typical)
    losses = [row["loss"] for row in train]
    return {
        "steps": train[-1]["step"] if train else 0,
        "first_loss": losses[0] if losses else None,
        "last_loss": losses[-1] if losses else None,
        "validation": [
            {"step": row["step"], "loss": row["validation_loss"]}
            for row in validation
            if _is_finite(row["validation_loss"])
        ],
        "validation_minimum": low,
        "chosen": {**low, "reason": "lowest validation loss"} if low else None,
        "stalls": stalls,
        "diverged": diverged_at is not None,
        "diverged_at": diverged_at,
        "overfit": overfit,
        "tokens_per_s": _rate(train, "tokens", step_s),
        "rows_per_s": _rate(train, "rows", step_s),
        "step_s_median": typical,
        "notes": _notes(train, validation, low, diverged_at=diverged_at, overfit=overfit),
    }


def _by_step(rows: Sequence[Row], key: str) -> list[Row]:
    """Rows that have `key`, one a step: a resumed run repeats steps, and the later row counts."""
    kept = {row["step"]: row for row in rows if key in row}
    return [kept[step] for step in sorted(kept)]


def _gaps(rows: Sequence[Row]) -> list[tuple[int, float]]:
    """(step before, seconds) between a row and the training row that follows it.

    Starting from the row before, of whatever kind, keeps validation out of the step's time. What
    follows a resumption is left out: it holds the time to load.
    """
    gaps = []
    for before, after in itertools.pairwise(rows):
        seconds = after["t_s"] - before["t_s"]
        known = seconds >= 0 and "resumed" not in before
        if known and "loss" in after and after["step"] == before["step"] + 1:
            gaps.append((before["step"], seconds))
    return gaps


def _step_times(rows: Sequence[Row]) -> list[float]:
    return [seconds for _, seconds in _gaps(rows)]


def _stalls(rows: Sequence[Row], typical: float | None) -> list[Json]:
    if typical is None:
        return []
    limit = max(STALL_FACTOR * typical, STALL_AT_LEAST_S)
    return [
        {"after_step": step, "seconds": round(seconds, 2), "median_s": round(typical, 3)}
        for step, seconds in _gaps(rows)
        if seconds > limit
    ]


def _minimum(validation: Sequence[Row]) -> Json | None:
    finite = [row for row in validation if _is_finite(row["validation_loss"])]
    if not finite:
        return None
    # Of equal losses the earliest, which has seen least.
    best = min(finite, key=lambda row: (row["validation_loss"], row["step"]))
    return {"step": best["step"], "loss": best["validation_loss"]}


def _diverged_at(train: Sequence[Row], warmup_steps: int) -> int | None:
    """First step whose loss is no number, exactly zero, or far above the first.

    A loss of exactly zero is what a logger shows when it hides a loss that is no number.
    """
    finite = [row["loss"] for row in train if _is_finite(row["loss"])]
    first = finite[0] if finite else None
    recent: list[float] = []
    for row in train:
        loss = row["loss"]
        if not _is_finite(loss) or loss == 0.0:
            return int(row["step"])
        if row["step"] <= warmup_steps:
            continue
        # One hard batch is not a divergence, so the middle of three counts.
        recent = [*recent[-2:], loss]
        if first is not None and len(recent) == 3 and median(recent) > RISE * first:
            return int(row["step"])
    return None


def _is_overfit(train: Sequence[Row], validation: Sequence[Row], low: Json | None) -> bool:
    if low is None or len(validation) < 3 or validation[-1]["step"] == low["step"]:
        return False
    last = validation[-1]["validation_loss"]
    if not _is_finite(last) or last <= OVERFIT * low["loss"]:
        return False
    before = [r["loss"] for r in train if r["step"] <= low["step"] and _is_finite(r["loss"])]
    after = [r["loss"] for r in train if r["step"] > low["step"] and _is_finite(r["loss"])]
    window = max(1, min(len(before), len(after)))
    return bool(before and after) and _mean(after[-window:]) < _mean(before[-window:])


def _notes(
    train: Sequence[Row],
    validation: Sequence[Row],
    low: Json | None,
    *,
    diverged_at: int | None,
    overfit: bool,
) -> list[str]:
    notes = []
    if diverged_at is not None:
        notes.append(f"the loss left its course at step {diverged_at}")
    if low is None:
        notes.append("no finite validation loss, so no checkpoint can be chosen by it")
    elif low["step"] == validation[-1]["step"] and len(validation) > 1:
        notes.append("validation loss was still at its lowest at the end: more steps may help")
    if overfit and low is not None:
        notes.append(f"validation loss rose after step {low['step']} while training loss fell")
    broken = [row["step"] for row in validation if not _is_finite(row["validation_loss"])]
    if broken:
        notes.append(f"validation loss was no number at step {broken[0]}")
    flat = [row["step"] for row in train if row.get("grad_norm") == 0.0]
    if len(flat) >= 2:
        notes.append(f"the gradient was zero at {len(flat)} steps, first at step {flat[0]}")
    return notes


def _rate(train: Sequence[Row], key: str, step_s: Sequence[float]) -> float | None:
    """Units of `key` a second over the steps alone."""
    amounts = [row[key] for row in train if row.get(key) is not None]
    if not amounts or not step_s or median(step_s) <= 0:
        return None
    return float(round(_mean(amounts) / _mean(step_s), 2)) if _mean(step_s) > 0 else None


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
