"""Hours, money, checkpoint interval and what a crash may cost, each number with its basis. Pure.

The wire test's measurements are the only source of speed: without them the quote is unknown, which
is a result (`cannot_tell`) and no error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_UP, Decimal
from typing import Any

from tunegate import defaults, memory
from tunegate.types import Json, Status

FORWARD_SHARE = 1 / 3
"""A forward pass costs about a third of forward and backward together."""

DISK_SHARE = 0.7
"""Checkpoints may fill at most this share of the free space."""

KEPT = 4
"""Checkpoints at one time: the newest two, the best, and the one being written."""

SESSION_SHARE = 0.8
"""A run may take at most this share of a platform's session limit."""

CENT = Decimal("0.01")


@dataclass(frozen=True)
class Speed:
    """What the wire test measured, for one step of this run. All times in seconds."""

    step_s: float
    save_s: float
    start_s: float
    basis: str


def quote(
    frozen: Json,
    wire: Mapping[str, Any] | None,
    offer: Mapping[str, Any],
    *,
    margin: float = 1.5,
    mean_hours_between_failures: float = 24.0,
    session_hours: float | None = None,
) -> Json:
    """The payload of quote.json.

    `wire` is the wire test's observation: `step_s_median`, `save_s` and, where known,
    `batch_size`, `start_s`, `peak_memory_gib`, `checkpoint_bytes`, `tiny`. `offer` is
    `Offer.to_json()`. Money is a decimal string; `ceiling` is what the run may cost at most, from
    its limits.
    """
    speed = _speed(frozen, wire)
    if speed is None or wire is None:
        return _unknown(frozen, offer)
    train, limits = frozen["settings"]["train"], frozen["settings"]["limits"]
    work_s, parts = _work(frozen, speed)
    checkpoint = _checkpoint(
        speed, risk_s=60 * limits["minutes_at_risk"], mean_hours=mean_hours_between_failures
    )
    # Also saved: the first step, and every step that is validated.
    saves = 1 + math.ceil(work_s / checkpoint["every_s"]) + len(_validations(frozen))
    total_s = work_s + saves * speed.save_s
    parts.append({"name": "checkpoints", "seconds": round(saves * speed.save_s, 1)})
    hours = _hours(total_s / 3600, margin=margin, limits=limits, parts=parts, basis=speed.basis)
    money = _money(hours, offer, limits)
    needs = memory.estimate(frozen, dict(wire), available_gib=offer.get("memory_gib"))
    disk = _disk(wire, needs["adapter_parameters"], free_gib=offer.get("disk_free_gib"))
    problems = [
        *_over(hours, money, session_hours=session_hours),
        *_unmet(checkpoint, needs, disk),
    ]
    return {
        "offer": dict(offer),
        "margin": margin,
        "steps": {"total": train["total_steps"], "step_s": round(speed.step_s, 4)},
        "hours": hours,
        "money": money,
        "checkpoint": {**checkpoint, "saves": saves, "save_s": round(speed.save_s, 3)},
        "crash": _crash(checkpoint, speed, price=Decimal(str(offer["price_per_h"]))),
        "disk": disk,
        "memory": needs,
        "basis": speed.basis,
        "not_included": ["evaluation, and whatever else shares the machine"],
        "problems": problems,
        "verdict": str(Status.FAIL if problems else Status.PASS),
    }


def _speed(frozen: Json, wire: Mapping[str, Any] | None) -> Speed | None:
    """The measured times, scaled from the wire test's batch to this run's."""
    step_s = (wire or {}).get("step_s_median")
    # A tiny model proves the pipeline and says nothing about the time of the real one.
    if (
        wire is None
        or wire.get("tiny")
        or step_s is None
        or not math.isfinite(step_s)
        or step_s <= 0
    ):
        return None
    batch = frozen["settings"]["train"]["batch_size"]
    measured_batch = wire.get("batch_size") or batch
    basis = f"wire: median step {step_s:.3g} s at batch {measured_batch}"
    if measured_batch != batch:
        basis += f", scaled to {batch}"
    save_s = wire.get("save_s", wire.get("save_s_median"))
    if save_s is None:
        basis += "; time to save not measured, taken as one step"
        save_s = step_s
    return Speed(
        step_s=step_s * batch / measured_batch,
        save_s=float(save_s),
        start_s=float(wire.get("start_s") or 0.0),
        basis=basis,
    )


def _work(frozen: Json, speed: Speed) -> tuple[float, list[Json]]:
    """Seconds of a run without its checkpoints, and the parts they consist of."""
    train = frozen["settings"]["train"]
    passes = len(_validations(frozen))
    rows = frozen["data"]["validation"]["rows"]
    row_s = speed.step_s / train["batch_size"] * FORWARD_SHARE
    parts = [
        {"name": "start", "seconds": round(speed.start_s, 1)},
        {"name": "steps", "seconds": round(train["total_steps"] * speed.step_s, 1)},
        {"name": "validation", "seconds": round(passes * rows * row_s, 1)},
    ]
    return speed.start_s + train["total_steps"] * speed.step_s + passes * rows * row_s, parts


def _validations(frozen: Json) -> list[int]:
    train = frozen["settings"]["train"]
    return defaults.validation_steps(
        rows=frozen["data"]["train"]["rows"],
        batch_size=train["batch_size"],
        total_steps=train["total_steps"],
        every=train["eval_every_steps"],
    )


def _hours(hours: float, *, margin: float, limits: Json, parts: list[Json], basis: str) -> Json:
    return {
        "value": round(hours, 5),
        "with_margin": round(hours * margin, 5),
        "ceiling": limits["hours"],
        "parts": parts,
        "basis": basis,
    }


def _money(hours: Json, offer: Mapping[str, Any], limits: Json) -> Json:
    price = Decimal(str(offer["price_per_h"]))
    return {
        "value": _coins(price * Decimal(str(hours["value"]))),
        "with_margin": _coins(price * Decimal(str(hours["with_margin"]))),
        # What is free stays free: a limit above zero must not ask a person to release nothing.
        "ceiling": str(limits["money"]) if price else "0",
        "currency": offer["currency"],
        "basis": f"{offer['price_per_h']} {offer['currency']} an hour, {offer['source']}",
    }


def _coins(amount: Decimal) -> str:
    """Rounded up to whole cents, so that a sum of quotes is never too small."""
    return str(amount.quantize(CENT, rounding=ROUND_UP)) if amount else "0"


def _checkpoint(speed: Speed, *, risk_s: float, mean_hours: float) -> Json:
    """Seconds between checkpoints: Young's optimum, but never more work at risk than was allowed.

    A crash loses what was done since the last save, the save under way and the step under way, so
    these come off the allowance.
    """
    allowed = risk_s - speed.save_s - speed.step_s
    best = math.sqrt(2 * speed.save_s * mean_hours * 3600)
    kept = allowed >= speed.step_s
    if not kept:
        every, reason = speed.step_s, "every step: a step and a save take longer than is allowed"
    elif best < allowed:
        every = max(best, speed.step_s)
        reason = (
            f"Young's optimum for saves of {speed.save_s:.3g} s "
            f"and one failure in {mean_hours:g} h (assumed)"
        )
    else:
        every = allowed
        reason = f"{risk_s / 60:g} min at risk, less one save and one step"
    return {
        "every_s": round(every, 3),
        "minutes_at_risk": risk_s / 60,
        "kept": kept,
        "reason": reason,
        "source": "Young (1974), CACM 17(9), doi 10.1145/361147.361115",
        "basis": speed.basis,
    }


def _crash(checkpoint: Json, speed: Speed, *, price: Decimal) -> Json:
    """Work and money that a crash at a random moment loses, on average and at worst."""
    worst_s = checkpoint["every_s"] + speed.save_s + speed.step_s
    expected_s = checkpoint["every_s"] / 2 + speed.save_s
    return {
        "expected_minutes": round(expected_s / 60, 2),
        "worst_minutes": round(worst_s / 60, 2),
        "expected_money": _coins(price * Decimal(str(expected_s)) / 3600),
        "worst_money": _coins(price * Decimal(str(worst_s)) / 3600),
        "resumable": True,
        "basis": "interval, save and step; a resumed run repeats the lost steps exactly",
    }


def _disk(wire: Mapping[str, Any], adapter_parameters: int, *, free_gib: float | None) -> Json:
    """Space for the checkpoints that are there at one time, and the adapter."""
    measured = wire.get("checkpoint_bytes")
    one = float(measured) if measured else adapter_parameters * 16.0
    needed = (KEPT + 1) * one / memory.GIB
    how = "measured by the wire test" if measured else "adapter, two moments and a copy, 16 bytes"
    return {
        "needed_gib": round(needed, 3),
        "free_gib": free_gib,
        "fits": None if free_gib is None else needed < DISK_SHARE * free_gib,
        "basis": f"{KEPT} checkpoints and the adapter x {one / 2**20:.1f} MiB ({how})",
    }


def _over(hours: Json, money: Json, *, session_hours: float | None) -> list[str]:
    problems = []
    if hours["with_margin"] > hours["ceiling"]:
        problems.append(
            f"limits.hours: {hours['with_margin']:.2f} h with margin, but {hours['ceiling']:g} h "
            "are allowed"
        )
    if Decimal(money["with_margin"]) > Decimal(money["ceiling"]):
        problems.append(
            f"limits.money: {money['with_margin']} {money['currency']} with margin, but "
            f"{money['ceiling']} are allowed"
        )
    if session_hours is not None and hours["with_margin"] > SESSION_SHARE * session_hours:
        problems.append(
            f"{hours['with_margin']:.2f} h with margin is more than {SESSION_SHARE:.0%} of the "
            f"platform's session of {session_hours:g} h"
        )
    return problems


def _unmet(checkpoint: Json, needs: Json, disk: Json) -> list[str]:
    problems = []
    if not checkpoint["kept"]:
        problems.append(
            f"limits.minutes_at_risk: {checkpoint['minutes_at_risk']:g} min cannot be kept, since "
            f"a step takes {checkpoint['every_s']:.0f} s"
        )
    if needs["fits"] is False:
        problems.append(
            f"{needs['total_gib']} GiB of memory are needed ({needs['basis']}, with headroom) and "
            f"{needs['available_gib']} are there"
        )
    if disk["fits"] is False:
        problems.append(
            f"{disk['needed_gib']} GiB of disk are needed and {disk['free_gib']} are free, of "
            f"which {DISK_SHARE:.0%} may be used"
        )
    return problems


def _unknown(frozen: Json, offer: Mapping[str, Any]) -> Json:
    basis = "unknown: the wire test has measured nothing"
    return {
        "offer": dict(offer),
        "hours": None,
        "money": None,
        "checkpoint": None,
        "crash": None,
        "disk": None,
        "memory": memory.estimate(frozen, available_gib=offer.get("memory_gib")),
        "basis": basis,
        "problems": [basis],
        "verdict": str(Status.CANNOT_TELL),
    }
