"""What a running training shows that it should not: rules over its metric rows and its silence.

Pure: whoever watches passes rows, plan and times, and acts on what is returned. `curves` looks back
on a finished run; this looks at one that still costs money.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from statistics import median
from typing import Any

from tunegate.types import Json

RISE = 1.5
"""A loss above this many times the first one, after the warm-up, is divergence."""
SMOOTH = 5
"""Steps whose median is compared: one hard batch is no divergence."""
RATE_OFF = 0.05
"""Of the peak rate: how far a step's learning rate may be from the plan's."""
DEAD_STEPS = 2
"""Steps in a row with a gradient norm of zero."""
SILENCE_STEPS = 5.0
SILENCE_S = 600.0
"""Silence is the longer of `SILENCE_STEPS` median steps and this many seconds."""
SLOWER = 5.0
"""This many times the step of the wire test, on the same machine, is another machine."""
LATE = 3.0
"""A checkpoint that is this many intervals old."""

Row = Mapping[str, Any]


class Act(StrEnum):
    """What an alarm asks for."""

    STOP = "stop"
    """The run cannot become what was planned: end it, keep what is saved."""
    TELL = "tell"
    """A person should know; the run goes on."""


@dataclass(frozen=True)
class Alarm:
    """One rule that fired."""

    rule: str
    act: Act
    seen: str
    """What was seen, with numbers."""
    step: int | None = None
    hint: str | None = None

    def to_json(self) -> Json:
        out = asdict(self)
        out["act"] = str(self.act)
        return out


def of_metrics(
    rows: Sequence[Row],
    *,
    warmup_steps: int,
    planned_rate: Callable[[int], float],
    peak_rate: float,
) -> list[Alarm]:
    """Alarms that the metric rows give, at most one a rule, at the first step that shows it.

    `planned_rate` maps a 1-based step to the learning rate that the frozen schedule gives it.
    """
    train = [row for row in rows if row.get("loss", _ABSENT) is not _ABSENT]
    found = [
        _not_finite(train),
        _zero(train),
        _dead(train),
        _risen(train, warmup_steps),
        _off_plan(train, planned_rate, peak_rate),
    ]
    return [alarm for alarm in found if alarm is not None]


_ABSENT = object()


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _not_finite(train: Sequence[Row]) -> Alarm | None:
    for row in train:
        for key in ("loss", "grad_norm"):
            if key in row and not _finite(row[key]):
                return Alarm(
                    "not_finite",
                    Act.STOP,
                    f"{key} is {row[key]} at step {row['step']}",
                    row["step"],
                    "lower train.learning_rate or raise train.warmup_steps",
                )
    return None


def _zero(train: Sequence[Row]) -> Alarm | None:
    """A loss of exactly zero: what a logger shows that hides a loss which is no number."""
    for row in train:
        if row["loss"] == 0:
            return Alarm(
                "loss_zero",
                Act.STOP,
                f"the loss is exactly 0 at step {row['step']}: no token carries loss, or the "
                "trainer hides a loss that is no number",
                row["step"],
                "tunegate check RUN: mask_exact shows what is trained",
            )
    return None


def _dead(train: Sequence[Row]) -> Alarm | None:
    dead = 0
    for row in train:
        dead = dead + 1 if row.get("grad_norm") == 0 else 0
        if dead == DEAD_STEPS:
            return Alarm(
                "gradient_zero",
                Act.STOP,
                f"the gradient norm is 0 in {DEAD_STEPS} steps in a row, up to step {row['step']}",
                row["step"],
                "nothing is being trained: look at train.lora.targets",
            )
    return None


def _risen(train: Sequence[Row], warmup_steps: int) -> Alarm | None:
    losses = [row["loss"] for row in train if _finite(row["loss"])]
    if len(losses) < 2 * SMOOTH:
        return None
    first = median(losses[:SMOOTH])
    for end in range(max(warmup_steps, SMOOTH) + SMOOTH, len(losses) + 1):
        now = median(losses[end - SMOOTH : end])
        if now > RISE * first:
            return Alarm(
                "loss_risen",
                Act.STOP,
                f"the loss is {now:.3f} around step {train[end - 1]['step']}, over {RISE:g} times "
                f"the first ({first:.3f})",
                train[end - 1]["step"],
                "lower train.learning_rate",
            )
    return None


def _off_plan(
    train: Sequence[Row], planned_rate: Callable[[int], float], peak_rate: float
) -> Alarm | None:
    for row in train:
        rate = row.get("learning_rate")
        planned = planned_rate(row["step"])
        if rate is not None and not abs(rate - planned) <= RATE_OFF * peak_rate:
            return Alarm(
                "rate_off_plan",
                Act.STOP,
                f"the learning rate is {rate:.3g} at step {row['step']}, the plan says "
                f"{planned:.3g}",
                row["step"],
                "the trainer runs another schedule than the one that was frozen",
            )
    return None


def of_silence(*, quiet_s: float, step_s: float | None) -> Alarm | None:
    """An alarm where neither log nor metrics grew for `quiet_s` seconds.

    `step_s` is the median step of the run, or of its wire test while it has none.
    """
    limit = max(SILENCE_S, SILENCE_STEPS * (step_s or 0.0))
    if quiet_s <= limit:
        return None
    return Alarm(
        "silence",
        Act.STOP,
        f"nothing was written for {quiet_s / 60:.0f} min; {limit / 60:.0f} were allowed",
        hint="it hangs: the log's last lines may say on what",
    )


def of_speed(*, step_s: float | None, expected_step_s: float | None) -> Alarm | None:
    """An alarm where a step takes many times what the wire test measured."""
    if not step_s or not expected_step_s or step_s <= SLOWER * expected_step_s:
        return None
    return Alarm(
        "slow",
        Act.TELL,
        f"a step takes {step_s:.2f} s; the wire test measured {expected_step_s:.2f} s",
        hint="another device than planned, or neighbours on the machine",
    )


def of_checkpoints(*, age_s: float, every_s: float) -> Alarm | None:
    """An alarm where the newest checkpoint is far older than the interval."""
    if age_s <= LATE * every_s:
        return None
    return Alarm(
        "checkpoint_late",
        Act.TELL,
        f"the newest checkpoint is {age_s / 60:.0f} min old; one every {every_s / 60:.0f} was "
        "planned",
        hint="a crash now would cost that much",
    )
