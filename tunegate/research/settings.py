"""The effective settings of a frozen run, one line each, with where each came from. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tunegate.types import Json

_COMPUTED = {
    "train.total_steps": "whole batches an epoch times epochs",
    "eval.decoding": "always greedy, so that the same input gives the same output",
    "eval.confidence": "fixed, so that intervals of different runs compare",
    "eval.rule_max_new_tokens": "room for answers that are checked by rule",
}
"""Settings that no run file holds: computed, or the same in every run."""


def effective(frozen: Json) -> list[Json]:
    """Every resolved setting as {"key", "value", "reason", "source", "from"}.

    `from` is "file" (written there, or the run file's own default), "chosen" (by a rule) or
    "computed".
    """
    choices = {choice["key"]: choice for choice in frozen["choices"]}
    lines = []
    for key, value in _flatten(frozen["settings"], ""):
        choice = choices.get(key)
        if choice is not None:
            reason, source, origin = choice["reason"], choice["source"], "chosen"
        elif key in _COMPUTED:
            reason, source, origin = _COMPUTED[key], None, "computed"
        else:
            reason, source, origin = "the run file, or its own default", None, "file"
        lines.append(
            {"key": key, "value": value, "reason": reason, "source": source, "from": origin}
        )
    return lines


def packages(frozen: Json) -> dict[str, str | None]:
    """Versions that the framework runs with: of its own environment where it has one."""
    own = frozen.get("trainer") or {}
    return {**frozen["environment"], **own.get("packages", {})}


def value_at(frozen: Json, key: str) -> Any:
    """The resolved setting at a dotted key, the derived ones included; None where there is none."""
    settings = frozen["settings"]
    train = settings["train"]
    if key == "train.warmup_share":
        return train["warmup_steps"] / max(1, train["total_steps"])
    if key == "train.lora.alpha_per_rank":
        return train["lora"]["alpha"] / train["lora"]["rank"]
    found: Any = settings
    for part in key.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _flatten(value: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        path = f"{prefix}{key}"
        if path == "task.schema" and item is not None:
            yield path, {"sha256": _digest(item)}
        elif path == "eval.raw.prompts":
            # The texts stand in frozen.json; names and digests say which were tried.
            yield path, [{"name": p["name"], "sha256": p["sha256"]} for p in item]
        elif isinstance(item, Mapping) and item:
            yield from _flatten(item, f"{path}.")
        else:
            yield path, item


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
