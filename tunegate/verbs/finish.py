"""After the evaluation: decide, record, and the report page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tunegate import curves
from tunegate import decide as deciding
from tunegate import record as recording
from tunegate import report as pages
from tunegate.drive import Show, no_show
from tunegate.errors import UsageError
from tunegate.types import Json, Verdict
from tunegate.verbs.run import Result, Run, recommended, show_path
from tunegate.verbs.train import trained_s

MAX_LINEAGE = 50


def decide(run: str | Path, *, show: Show = no_show) -> Result:
    """One recommended next step and the rule that fired; a person confirms it."""
    opened = Run(run, show=show)
    _need(opened, "report.json", "eval")
    opened.require("eval")
    with opened.store.lock("decide"):
        found = deciding.decide(
            opened.store.read("report.json"), lineage(opened), validation=_validation(opened)
        )
        content = opened.store.write(
            "decision.json", found, read=("report.json",), made=opened.made("decide")
        )
    return Result(
        "decide",
        opened.argument,
        f"{content['next']} (rule {content['rule']}): {content['because'][0]}",
        {
            "next": content["next"],
            "because": content["because"],
            "classes_to_fix": content["classes_to_fix"],
        },
        opened.next(),
    )


def _need(run: Run, name: str, verb: str) -> None:
    if not run.store.exists(name):
        raise UsageError(
            f"{name} is missing", kind="file_missing", hint=f"tunegate {verb} {run.argument}"
        )


def lineage(run: Run) -> list[Json]:
    """The runs that this one follows, oldest first, itself last: what each had for data and
    settings.
    """
    found: list[Json] = []
    current: Run | None = run
    while current is not None and len(found) < MAX_LINEAGE:
        digests = current.store.read("frozen.json")["digests"]
        found.append(
            {
                "run": current.spec.name,
                "data_digest": digests["curriculum"],
                "settings_digest": digests["knobs"],
            }
        )
        parent = current.spec.parent
        current = Run(current.source_dir / parent) if parent else None
    return found[::-1]


def _attempt_dir(run: Run) -> Path:
    return run.store.path(f"attempts/{run.store.read('trained.json')['attempt']}")


def _metrics(run: Run) -> list[Json]:
    if not run.store.exists("trained.json"):
        return []
    name = f"attempts/{run.store.read('trained.json')['attempt']}/metrics.jsonl"
    return run.store.read_jsonl(name)


def _validation(run: Run) -> list[tuple[int, float]]:
    found = curves.read(_metrics(run))["validation"]
    return [(int(point["step"]), float(point["loss"])) for point in found]


def record(run: str | Path, *, show: Show = no_show) -> Result:
    """Write the run down: what went in, what came out, what it cost, what is next."""
    opened = Run(run, show=show)
    for name, verb in (
        ("trained.json", "train"),
        ("report.json", "eval"),
        ("decision.json", "decide"),
    ):
        _need(opened, name, verb)
    opened.require("eval", "decide")
    with opened.store.lock("record"):
        everything = _everything(opened)
        payload = recording.record(
            everything.pop("frozen"),
            **{**everything, "verdicts": [Verdict.from_json(v) for v in everything["verdicts"]]},
            code=opened.code,
        )
        content = opened.store.write(
            "record.json",
            payload,
            read=("decision.json", "report.json", "trained.json"),
            made=opened.made("record"),
        )
        opened.store.write_text("record.md", recording.markdown(content))
    return Result(
        "record",
        opened.argument,
        f"recorded in {show_path(opened.store.path('record.md'))}",
        {"file": show_path(opened.store.path("record.json")), **recommended(opened)},
        opened.next(),
    )


def _maybe(run: Run, name: str) -> Json | None:
    return run.store.read(name) if run.store.exists(name) else None


def _receipt(run: Run) -> Json | None:
    if not run.store.exists("trained.json"):
        return None
    path = _attempt_dir(run) / "receipt.json"
    if not path.is_file():
        return None
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found


def _verdicts(run: Run) -> list[Json]:
    files = ("evidence/checks.json", "evidence/wire.json")
    return [
        verdict
        for name in files
        for verdict in (_maybe(run, name) or {}).get("verdicts", {}).values()
    ]


def _times(run: Run) -> Json:
    """Seconds that each part took, as far as the files say."""
    receipt = _receipt(run) or {}
    wire = _maybe(run, "evidence/wire.json")
    found: Json = {}
    if wire:
        found["wire_s"] = wire["observation"].get("seconds")
    if receipt:
        found["train_s"] = receipt.get("train_s")
    for column in ("raw", "tuned", "teacher"):
        content = _maybe(run, f"eval/{column}.json")
        if content:
            found[f"eval_{column}_s"] = content["seconds"]
    return {name: value for name, value in found.items() if value is not None}


def _cost(run: Run) -> Json:
    """Money: the price of the offer times the hours that training took, in all attempts."""
    from decimal import Decimal

    quote = _maybe(run, "quote.json")
    receipt = _receipt(run)
    if quote is None or receipt is None:
        return {"money": None, "currency": None, "basis": "not trained"}
    offer = quote["offer"]
    attempts = _attempts(run)
    seconds = sum(attempt["train_s"] for attempt in attempts)
    hours = Decimal(str(seconds)) / 3600
    money = (hours * Decimal(offer["price_per_h"])).quantize(Decimal("0.0001"))
    price = f"{offer['price_per_h']} {offer['currency']} an hour"
    many = f" in {len(attempts)} attempts" if len(attempts) > 1 else ""
    basis = f"{seconds:.0f} s{many} at {price}, {offer['source']}"
    return {
        "money": str(money.normalize()) if money else "0",
        "currency": offer["currency"],
        "basis": basis,
    }


def _everything(run: Run) -> dict[str, Any]:
    release = _maybe(run, "release.json")
    return {
        "frozen": run.frozen,
        "research": _maybe(run, "research.json"),
        "verdicts": _verdicts(run),
        "wire": (_maybe(run, "evidence/wire.json") or {}).get("observation"),
        "quote": _maybe(run, "quote.json"),
        "release": release,
        "receipt": _receipt(run),
        "curves": curves.read(
            _metrics(run), warmup_steps=run.frozen["settings"]["train"]["warmup_steps"]
        ),
        "report": _maybe(run, "report.json"),
        "decision": _maybe(run, "decision.json"),
        "times": _times(run),
        "cost": _cost(run),
        "attempts": _attempts(run),
    }


def _attempts(run: Run) -> list[Json]:
    """Every attempt, how it ended, and the seconds that it took, failed ones included."""
    good = run.store.read("trained.json")["attempt"] if run.store.exists("trained.json") else None
    found = []
    for number in run.store.attempts():
        error = run.store.path(f"attempts/{number}/error.json")
        outcome = "trained" if number == good else "not finished"
        if number != good and error.is_file():
            outcome = json.loads(error.read_text(encoding="utf-8"))["kind"]
        spent_s = trained_s(run.store.path(f"attempts/{number}"))
        found.append({"number": number, "outcome": outcome, "train_s": spent_s})
    return found


def report(run: str | Path, *, show: Show = no_show) -> Result:
    """Render report.html and report.md from what the folder holds."""
    opened = Run(run, show=show)
    _need(opened, "report.json", "eval")
    content = opened.store.read("report.json")
    everything = {**_everything(opened), "metrics": _metrics(opened), "made": content["made"]}
    everything["hardware"] = _hardware(everything)
    code = {key: opened.frozen["made"][key] for key in ("commit", "dirty")}
    everything["frozen"] = {**opened.frozen, "code": code}
    page = opened.store.write_text("report.html", pages.page(content, run=everything))
    opened.store.write_text("report.md", pages.markdown(content, everything))
    return Result(
        "report",
        opened.argument,
        f"report: {show_path(page)}",
        {
            "page": show_path(page),
            "markdown": show_path(opened.store.path("report.md")),
            **recommended(opened),
        },
        opened.next(),
    )


def _hardware(everything: Json) -> Json:
    offer = (everything["quote"] or {}).get("offer") or {}
    receipt = everything["receipt"] or {}
    return {
        "device": offer.get("device"),
        "memory_gib": offer.get("memory_gib"),
        "peak_memory_gib": receipt.get("peak_memory_gib"),
    }
