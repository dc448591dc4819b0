"""May this go on? Verdicts on the wire test and the receipt, what a release binds, and which level
it needs.

Pure: the verbs read the files and the clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from tunegate.types import Finding, Json, Status, Verdict

LOSS_SHARE = 0.10
"""Wire test: the last loss must lie under this share of the first."""
LOSS_LEARNED = 0.02
"""Wire test: a loss under this is learned by heart, however low it began."""
EXACT_SHARE = 0.95
"""Wire test: share of rows that the reloaded model must answer exactly."""

LEVEL_1_MONEY = Decimal(5)
"""Above this many units of money, or over two hours, a signature is needed (level 2)."""
LEVEL_1_HOURS = 2.0
RELEASE_LIFE = timedelta(hours=2)
CLOCK_SLACK = timedelta(minutes=5)
"""Clocks are set back by a little now and then; that alone voids no release."""


def judge_wire(seen: Json) -> Verdict:
    """Pass where 20 rows were learned by heart, survived save and reload, and every answer stops.

    It does not prove the mask: a model trained on whole sequences passes it too (`mask_exact`
    looks).
    """
    rows = int(seen["rows"])
    first, last = float(seen["first_loss"]), float(seen["last_loss"])
    findings = []
    if not (math.isfinite(first) and math.isfinite(last)):
        findings.append(Finding(f"the loss is not a number (first {first}, last {last})"))
    elif last > max(LOSS_SHARE * first, LOSS_LEARNED):
        findings.append(
            Finding(
                f"the loss fell from {first:.3f} to {last:.3f} only; "
                f"under {LOSS_SHARE * first:.3f} was expected",
                change="check train.learning_rate and train.lora.targets",
            )
        )
    if seen["exact"] < EXACT_SHARE * rows:
        learned = not findings
        findings.append(
            Finding(
                f"after reload {seen['exact']} of {rows} rows are answered exactly",
                change="compare the samples: serving may render another template than training"
                if learned
                else None,
            )
        )
    if seen["stopped"] < rows:
        findings.append(
            Finding(
                f"{rows - seen['stopped']} of {rows} answers do not stop",
                change="see check stop_token",
            )
        )
    summary = (
        f"{seen['exact']} of {rows} rows exact, {seen['stopped']} stopped after save and reload; "
        f"loss {first:.3f} to {last:.3f} in {seen['steps']} steps"
    )
    return Verdict(
        check="wire",
        status=Status.FAIL if findings else Status.PASS,
        summary=summary,
        findings=tuple(findings),
        numbers={
            key: seen.get(key) for key in ("step_s_median", "save_s", "peak_memory_gib", "steps")
        },
        samples=tuple(seen.get("samples", ()))[:3],
        not_checked=("whether only the answers carry loss: mask_exact looks at that",),
    )


def receipt_problems(receipt: Json | None) -> list[str]:
    """What a receipt fails to prove. An empty list is the only sign that training happened.

    That receipt and adapter are of this training is made sure before: what stood there is removed
    when it is launched. No clock can show it, since clocks are set while a run goes on.
    """
    if receipt is None:
        return ["no receipt: the trainer ended without saying what it did"]
    adapter = receipt.get("adapter") or {}
    norm = receipt.get("grad_norm_max")
    facts = [
        (
            receipt.get("steps") == receipt.get("planned_steps")
            and (receipt.get("steps") or 0) > 0,
            f"{receipt.get('steps')} of {receipt.get('planned_steps')} planned steps were done",
        ),
        (receipt.get("losses_finite") is True, "the log holds no finite losses"),
        (
            norm is not None and math.isfinite(norm) and norm > 0,
            f"the gradient norm never rose above zero ({norm})",
        ),
        (adapter.get("changed") is True, "the adapter's weights are those it started with"),
        ((adapter.get("bytes") or 0) > 1000, "there is no adapter file worth the name"),
        (
            ((receipt.get("effect") or {}).get("changed") or 0) > 0,
            "the tuned model answers every probe as the base does",
        ),
    ]
    return [message for holds, message in facts if not holds]


def gate_problems(
    *,
    research: Json | None,
    checks: Json | None,
    wire: Json | None,
    quote: Json | None,
    waived: Mapping[str, str],
) -> list[str]:
    """Everything that keeps gates 1 and 2 closed, in the order in which to mend it."""
    problems = []
    if research is None:
        problems.append("research was not run")
    elif research["verdict"] != Status.PASS and "research" not in waived:
        problems += [f"research: {text}" for text in research["problems"]] or ["research is open"]
    if checks is None:
        problems.append("check was not run")
    for name, verdict in (checks or {}).get("verdicts", {}).items():
        if verdict["status"] != Status.PASS and name not in waived:
            problems.append(f"{name} {verdict['status']}: {verdict['summary']}")
    if wire is None:
        problems.append("wire was not run")
    for name, verdict in (wire or {}).get("verdicts", {}).items():
        if verdict["status"] != Status.PASS and name not in waived:
            problems.append(f"{name} {verdict['status']}: {verdict['summary']}")
    if quote is not None and quote["verdict"] != Status.PASS and "quote" not in waived:
        problems += [f"quote: {text}" for text in quote["problems"]] or ["the quote is open"]
    return problems


def plan(
    *,
    frozen: Json,
    digests: Mapping[str, str | None],
    quote: Json,
    code: Json,
    waived: Mapping[str, str],
) -> Json:
    """What a release binds: canonical JSON, money as strings, no floats in money.

    `digests` are those of research, checks, wire, dry run and quote.
    """
    return {
        "purpose": "train",
        "name": frozen["name"],
        "inputs": dict(frozen["digests"]),
        "evidence": dict(digests),
        "code": code,
        "offer": {
            key: quote["offer"][key]
            for key in ("platform", "device", "price_per_h", "currency", "source")
        },
        "money_ceiling": quote["money"]["ceiling"],
        "currency": quote["offer"]["currency"],
        "hours_ceiling": quote["hours"]["ceiling"],
        "checkpoint_every_s": quote["checkpoint"]["every_s"],
        "minutes_at_risk": quote["checkpoint"]["minutes_at_risk"],
        "waived": dict(waived),
    }


def required_level(plan: Json) -> tuple[int, str]:
    """The lowest level that may release the plan, and why."""
    money, hours = Decimal(plan["money_ceiling"]), float(plan["hours_ceiling"])
    currency = plan["currency"]
    if plan["waived"]:
        return 1, "a check is waived, which only a person may do"
    if money == 0:
        return 0, "it costs nothing and all evidence is green"
    if money > LEVEL_1_MONEY:
        return 2, f"the ceiling of {money} {currency} is above {LEVEL_1_MONEY}"
    if hours > LEVEL_1_HOURS:
        return 2, f"it may take {hours:g} h, more than {LEVEL_1_HOURS:g}"
    return 1, f"it may cost up to {money} {currency}"


def release_problems(
    release: Json, *, plan_digest: str, now: datetime, spent: Sequence[Any] = ()
) -> list[str]:
    """Why a release does not hold (any more). `spent` are earlier attempts made under it."""
    problems = []
    if release["decision"] != "release":
        problems.append("a person refused it")
    if release["plan_digest"] != plan_digest:
        problems.append("something it binds has changed since")
    given = datetime.fromisoformat(release["not_after"]) - RELEASE_LIFE
    if not spent and now < given - CLOCK_SLACK:
        # Or else a clock that was set back would make a release last for years.
        problems.append(f"it was given at {given.isoformat()}, which the clock has not reached")
    if not spent and now > datetime.fromisoformat(release["not_after"]):
        # A run that began in time may go on: its ceiling still holds.
        problems.append(f"it expired at {release['not_after']}")
    return problems


def changed_parts(old: Json, new: Json, prefix: str = "") -> list[str]:
    """Dotted names of the parts in which two plans differ."""
    found = []
    for key in sorted(set(old) | set(new)):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) and isinstance(after, dict):
            found += changed_parts(before, after, f"{prefix}{key}.")
        elif before != after:
            found.append(f"{prefix}{key}")
    return found
