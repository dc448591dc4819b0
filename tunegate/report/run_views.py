"""Views of the run itself: settings with reasons, memory, time and money, digests and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tunegate.report.wording import number, value
from tunegate.types import Json


def settings(run: Mapping[str, Any]) -> Json:
    """`chosen` (with reason and source) and `given`: every other setting, dotted key and value."""
    frozen = run["frozen"] or {}
    choices = frozen.get("choices") or []
    chosen_keys = {choice["key"] for choice in choices}
    lines = (run["research"] or {}).get("effective")
    if lines:
        given = [
            {"key": line["key"], "value": value(line["value"]), "reason": line.get("reason")}
            for line in lines
            if line["key"] not in chosen_keys
        ]
    else:
        given = [
            {"key": key, "value": value(item), "reason": None}
            for key, item in _flat(frozen.get("settings") or {}, "")
            if key not in chosen_keys
        ]
    return {
        "chosen": [
            {
                "key": choice["key"],
                "value": value(choice["value"]),
                "reason": choice["reason"],
                "source": choice.get("source"),
            }
            for choice in choices
        ],
        "given": given,
    }


def _flat(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, item in node.items():
        if isinstance(item, Mapping) and item and key != "schema":
            yield from _flat(item, f"{prefix}{key}.")
        elif key != "schema":
            yield f"{prefix}{key}", item


def memory(run: Mapping[str, Any]) -> Json | None:
    """The quote's lines of memory, each with its share of the sum, beside what was measured."""
    found = (run["quote"] or {}).get("memory")
    if not found:
        return None
    total = sum(line["gib"] for line in found["lines"])
    return {
        **found,
        "lines": [
            {**line, "share": line["gib"] / total if total else 0.0} for line in found["lines"]
        ],
        "ratio": found.get("ratio"),
        "headroom": found.get("headroom", ""),
        "weights_at": ", ".join(
            f"{size:.2f} GiB at {name}" for name, size in found.get("weights_at_gib", {}).items()
        ),
        "train_peak_gib": (run["receipt"] or {}).get("peak_memory_gib"),
    }


def costs(run: Mapping[str, Any], report: Json) -> Json:
    """Expected against measured time and money, and the seconds of every part."""
    quote, receipt = run["quote"] or {}, run["receipt"] or {}
    hours, money = quote.get("hours") or {}, quote.get("money") or {}
    times = dict(run["times"] or {})
    for name, about in report["columns"].items():
        if about and about.get("seconds") is not None:
            times.setdefault(f"eval_{name}_s", about["seconds"])
    seconds = [
        (name.removesuffix("_s").replace("_", " "), float(item))
        for name, item in times.items()
        if item
    ]
    longest = max((item for _, item in seconds), default=0.0)
    return {
        "expected_s": 3600 * hours["value"] if hours.get("value") is not None else None,
        "train_s": receipt.get("train_s"),
        "expected_money": money.get("value"),
        "ceiling_money": money.get("ceiling"),
        "currency": money.get("currency"),
        "cost": run["cost"] or {},
        "checkpoint": quote.get("checkpoint"),
        "crash": quote.get("crash"),
        "times": [
            {"name": name, "seconds": item, "share": item / longest if longest else 0.0}
            for name, item in seconds
        ],
        "total_s": sum(item for _, item in seconds) or None,
        "hardware": {key: item for key, item in (run["hardware"] or {}).items() if item},
        "receipt": _receipt(receipt),
        "attempts": run["attempts"] or [],
    }


def _receipt(receipt: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """What proves that training happened, line by line."""
    if not receipt:
        return []
    adapter, effect = receipt.get("adapter") or {}, receipt.get("effect") or {}
    lines = [
        ("steps done", f"{receipt.get('steps')} of {receipt.get('planned_steps')} planned"),
        ("training rows seen", _count(receipt.get("rows_seen"))),
        ("tokens seen", _count(receipt.get("tokens"))),
        ("tokens that carried loss", _count(receipt.get("answer_tokens"))),
        ("every loss finite", receipt.get("losses_finite")),
        ("largest gradient norm", receipt.get("grad_norm_max")),
        ("adapter changed", adapter.get("changed")),
        ("adapter size, bytes", _count(adapter.get("bytes"))),
        ("probes answered otherwise than the base", _of(effect)),
    ]
    return [(name, value(item)) for name, item in lines if item is not None]


def _count(found: int | None) -> str | None:
    return None if found is None else number(found)


def _of(effect: Mapping[str, Any]) -> str | None:
    if effect.get("probes") is None:
        return None
    return f"{effect.get('changed')} of {effect['probes']}"


def provenance(run: Mapping[str, Any]) -> Json:
    """Digests, versions, files and the code that made it all."""
    frozen, receipt = run["frozen"] or {}, run["receipt"] or {}
    base = frozen.get("base") or {}
    made = run["made"] or {}
    code = frozen.get("code") or {}
    adapter = receipt.get("adapter") or {}
    return {
        "digests": sorted((frozen.get("digests") or {}).items()),
        "files": [
            {"name": name, "path": item["path"], "rows": item["rows"], "sha256": item["sha256"]}
            for name, item in (frozen.get("data") or {}).items()
        ],
        "base": [
            (key, number(base[key]) if key == "parameters" else value(base[key]))
            for key in ("model", "revision", "architecture", "parameters", "dtype")
            if base.get(key) is not None
        ],
        "versions": sorted(
            (name, version)
            for name, version in (frozen.get("environment") or {}).items()
            if isinstance(version, str)
        ),
        "others": [
            (name, item)
            for name, item in (
                ("prompt", (frozen.get("prompt") or {}).get("sha256")),
                ("tokenizer", (frozen.get("tokenizer") or {}).get("sha256")),
                ("template", (frozen.get("template") or {}).get("sha256")),
                ("adapter", adapter.get("sha256")),
                ("worker", receipt.get("worker_sha256")),
                ("released plan", (run["release"] or {}).get("plan_digest")),
            )
            if item
        ],
        "commit": code.get("commit"),
        "dirty": code.get("dirty"),
        "version": made.get("version"),
        "at": made.get("at"),
    }
