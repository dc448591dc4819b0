"""Drafts for the knowledge base: facts of this run that the next one can use. Pure."""

from __future__ import annotations

from tunegate.types import Json


def drafts(payload: Json) -> list[Json]:
    """{id, kind, title, text} for each fact worth keeping; `payload` is the record so far."""
    found = [_speed(payload), _result(payload), *_failures(payload), *_curves(payload)]
    return [draft for draft in found if draft is not None]


def _speed(payload: Json) -> Json | None:
    receipt = payload["training"]["receipt"]
    if receipt is None or receipt["step_s_median"] is None:
        return None
    train, base = payload["settings"]["train"], payload["base"]
    memory = receipt["peak_memory_gib"]
    text = (
        f"{base['model']} ({base['parameters']:,} parameters), {train['framework']}, batch "
        f"{train['batch_size']}, {train['precision']}, on {receipt['device']}: "
        f"{receipt['step_s_median']:.3g} s a step"
    )
    if memory is not None:
        text += f", {memory:.2f} GiB at its peak"
    return _draft(payload, "speed", "measurement", f"Speed of {base['model']}", text + ".")


def _result(payload: Json) -> Json | None:
    evaluation = payload["evaluation"]
    if evaluation is None:
        return None
    title = f"Result of {payload['name']}"
    return _draft(payload, "result", "result", title, evaluation["verdict"]["sentence"])


def _failures(payload: Json) -> list[Json]:
    return [
        _draft(
            payload,
            f"attempt-{attempt['number']}",
            "failure",
            f"Attempt {attempt['number']} of {payload['name']} failed",
            f"It ended with: {attempt['outcome']}.",
        )
        for attempt in payload["training"]["attempts"]
        if attempt["outcome"] != "trained"
    ]


def _curves(payload: Json) -> list[Json]:
    curves = payload["training"]["curves"]
    notes = (curves or {}).get("notes") or []
    if not notes:
        return []
    text = "; ".join(notes) + "."
    return [_draft(payload, "curves", "observation", f"Curves of {payload['name']}", text)]


def _draft(payload: Json, suffix: str, kind: str, title: str, text: str) -> Json:
    return {"id": f"{payload['name']}-{suffix}", "kind": kind, "title": title, "text": text}
