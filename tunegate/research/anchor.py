"""Is this run comparable with its anchor? Effective settings compared axis by axis. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate import semantics
from tunegate.research.settings import packages, value_at
from tunegate.types import Answer, Json, Status

_SETTINGS = (
    "task.answer",
    "task.labels",
    "train.framework",
    "train.loss",
    "train.epochs",
    "train.batch_size",
    "train.learning_rate",
    "train.schedule",
    "train.warmup_share",
    "train.weight_decay",
    "train.max_grad_norm",
    "train.lora.rank",
    "train.lora.alpha",
    "train.lora.dropout",
    "train.lora.targets",
    "train.precision",
    "train.max_length",
    "train.seed",
    "eval.decoding",
    "eval.max_new_tokens",
)
"""Learning-relevant axes that are settings; the others are digests of inputs."""

_TOLERANCE = {"train.warmup_share": 0.01}
"""Rounding to whole steps moves the share a little."""

Tables = Mapping[str, Mapping[str, Answer]]
"""SEMANTICS tables by framework."""


def difference(
    here: Json,
    there: Json,
    *,
    allow: Mapping[str, str] | None = None,
    tables: Tables | None = None,
) -> Json:
    """Compare two frozen runs on every axis that changes what is learned or measured.

    Returns {"name", "differences": [{"axis", "here", "there", "verdict", "reason"}], "same": n,
    "environment": [...], "unused": [...], "verdict"}. A difference passes where `allow` names its
    axis with a reason. With two frameworks, or two versions of one, their `tables` are compared
    too; what no table answers is `cannot_tell`.
    """
    allow = allow or {}
    mine, other = _axes(here), _axes(there)
    differing = [a for a in sorted({*mine, *other}) if not _same(a, mine.get(a), other.get(a))]
    lines = [_line(axis, mine.get(axis), other.get(axis), allow) for axis in differing]
    lines += [_semantic_line(item, allow) for item in _semantics(here, there, tables or {})]
    verdicts = {line["verdict"] for line in lines}
    verdict = Status.PASS
    if Status.FAIL in verdicts:
        verdict = Status.FAIL
    elif Status.CANNOT_TELL in verdicts:
        verdict = Status.CANNOT_TELL
    return {
        "name": there["name"],
        "differences": lines,
        "same": len({*mine, *other}) - len(differing),
        "environment": _environment(here, there),
        "unused": [axis for axis in allow if axis not in {line["axis"] for line in lines}],
        "verdict": str(verdict),
    }


def problems(found: Json) -> list[str]:
    """One line for each difference that is not allowed."""
    return [
        f"anchor {found['name']}: {line['axis']} is {_short(line['here'])} here and "
        f"{_short(line['there'])} there; allow it under research.allow with a reason, or undo it"
        for line in found["differences"]
        if line["verdict"] != Status.PASS
    ]


def _axes(frozen: Json) -> dict[str, Any]:
    tokenizer, template, base = frozen["tokenizer"], frozen["template"], frozen["base"]
    raw = frozen["settings"]["eval"]["raw"]
    axes = {key: value_at(frozen, key) for key in _SETTINGS}
    axes.update({f"data.{name}": file["sha256"] for name, file in frozen["data"].items()})
    # An unpinned folder has no revision; its files' digests are the identity then.
    axes["base"] = f"{base['model']}@{base['revision'] or frozen['digests']['base']}"
    axes["prompt.system"] = frozen["prompt"]["sha256"]
    axes["template"] = template["sha256"]
    axes["template.training"] = template.get("training_source")
    axes["terminator"] = {"eos": tokenizer["eos_id"], "stop": list(tokenizer["stop_ids"])}
    axes["eval.raw.prompts"] = [prompt["sha256"] for prompt in raw["prompts"]]
    axes["eval.raw.shots"] = list(raw["shots"])
    axes["eval.raw.constrained"] = list(raw["constrained"])
    return axes


def _same(axis: str, here: Any, there: Any) -> bool:
    if axis in _TOLERANCE and here is not None and there is not None:
        return bool(abs(here - there) <= _TOLERANCE[axis])
    if axis == "train.lora.targets" and here is not None and there is not None:
        return sorted(here) == sorted(there)
    return bool(here == there)


def _line(axis: str, here: Any, there: Any, allow: Mapping[str, str]) -> Json:
    reason = allow.get(axis)
    verdict = Status.PASS if reason else Status.FAIL
    return {"axis": axis, "here": here, "there": there, "verdict": str(verdict), "reason": reason}


def _semantics(here: Json, there: Json, tables: Tables) -> list[semantics.Difference]:
    names = [frozen["settings"]["train"]["framework"] for frozen in (here, there)]
    installed = [packages(frozen).get(n) for frozen, n in zip((here, there), names, strict=True)]
    if names[0] == names[1] and installed[0] == installed[1]:
        return []
    return semantics.differences(
        semantics.questions(),
        here=tables.get(names[0], {}),
        there=tables.get(names[1], {}),
        here_version=installed[0],
        there_version=installed[1],
    )


def _semantic_line(item: semantics.Difference, allow: Mapping[str, str]) -> Json:
    axis = f"semantics.{item.question}"
    verdict = Status.PASS if allow.get(axis) else item.status
    return {
        "axis": axis,
        "here": item.here,
        "there": item.there,
        "verdict": str(verdict),
        "reason": allow.get(axis) or item.reason,
    }


def _environment(here: Json, there: Json) -> list[Json]:
    """Packages whose versions differ: shown, since they do not stand among the axes."""
    mine, other = packages(here), packages(there)
    return [
        {"package": name, "here": mine.get(name), "there": other.get(name)}
        for name in sorted({*mine, *other})
        if mine.get(name) != other.get(name)
    ]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
