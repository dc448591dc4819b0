"""A decision as what a person does next. Pure."""

from __future__ import annotations

from tunegate.compare.wording import enumerated
from tunegate.types import Json

_NEW_RUN = "in a new folder whose run.yaml says `parent:` and this run's folder"

_STEPS = {
    "fix_eval": "mend the evaluation, then {go}",
    "stop": "stop here; report and record say why, and nothing more is to be spent on this",
    "data": f"mend the training rows{{classes}}, {_NEW_RUN}",
    "one_knob": f"change the one setting that the report names, {_NEW_RUN}",
    "serve": "use the adapter, {adapter}: PEFT and every server that reads PEFT adapters load it",
    "preference": "keep the adapter; the form of its answers is what a preference pass would teach",
}
"""What each value of a decision's `next` asks of a person."""


def advice(decision: Json, *, run: str, adapter: str) -> str:
    """One sentence: the step that `decision` recommends, with what it concerns."""
    classes = [str(item["class"]) for item in decision["classes_to_fix"]]
    return _STEPS[decision["next"]].format(
        classes=f" of {enumerated(classes)}" if classes else "",
        go=f"tunegate go {run}",
        adapter=adapter,
    )
