"""A run that stops and goes on in a fresh process is the run that never stopped.

A pass proves, on a random model of the base's shape, with the framework's own checkpoints: eight
steps straight, and four steps, a stop and four more in another process, in the second epoch, show
the same learning rates, the same rows in the same order and the same losses, and end in the same
adapter.

It does not prove that a checkpoint survives the machine: the checkpoint interval and the copy off a
rented machine see to that.
"""

from __future__ import annotations

from tunegate.checks import CheckInputs
from tunegate.types import Finding, Json, Status, Verdict

WHERE = "machine"
ORDER = 110

TOLERANCE = 1e-5
"""Largest difference of a weight, relative to the largest weight; 0 on a CPU."""
LOSS_TOLERANCE = 1e-4

NOT_CHECKED = ("whether checkpoints outlive the machine that they were written on",)


def observe(inputs: CheckInputs) -> Json:
    """Set the steps of both runs side by side."""
    from safetensors.torch import load_file

    rehearsal = inputs.rehearsed
    runs = {
        "straight": rehearsal.steps(rehearsal.straight),
        "resumed": rehearsal.steps(rehearsal.halved),
    }
    one = load_file(rehearsal.newest_adapter(rehearsal.straight))
    other = load_file(rehearsal.newest_adapter(rehearsal.halved))
    largest = max(float(tensor.abs().max()) for tensor in one.values())
    return {
        **{
            name: {
                key: [step[key] for step in steps]
                for key in ("step", "learning_rate", "row_ids", "loss")
            }
            for name, steps in runs.items()
        },
        "same_tensors": sorted(one) == sorted(other),
        "weights_apart": max(
            (float((one[key] - other[key]).abs().max()) for key in one.keys() & other.keys()),
            default=0.0,
        )
        / largest,
    }


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail at the first difference of each kind."""
    straight, resumed = observation["straight"], observation["resumed"]
    findings = []
    if straight["step"] != resumed["step"]:
        findings.append(
            Finding(
                f"straight through: steps {_span(straight['step'])}; with a stop: "
                f"{_span(resumed['step'])}"
            )
        )
    pairs = list(
        zip(
            straight["step"],
            *(zip(straight[key], resumed[key], strict=False) for key in _TEXTS),
            strict=False,
        )
    )
    for place, (key, text) in enumerate(_TEXTS.items(), start=1):
        for pair in pairs:
            one, other = pair[place]
            if _differ(key, one, other):
                findings.append(Finding(f"step {pair[0]}: {text} {other} after a stop, not {one}"))
                break
    apart = observation["weights_apart"]
    if not observation["same_tensors"] or not apart <= TOLERANCE:
        findings.append(
            Finding(f"the adapters differ by {apart:.1e} of their largest weight")
            if observation["same_tensors"]
            else Finding("the adapters do not hold the same tensors")
        )
    return Verdict(
        check="resume_probe",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"{len(straight['step'])} steps straight and with a stop in between: "
        + ("the same" if not findings else f"{len(findings)} differences")
        + f"; weights within {apart:.1e}",
        findings=tuple(
            Finding(
                finding.message,
                change="save optimizer, schedule, generators and data position in each checkpoint",
            )
            for finding in findings
        ),
        numbers={"weights_apart": apart, "steps": len(straight["step"])},
        not_checked=NOT_CHECKED,
    )


_TEXTS = {
    "learning_rate": "the learning rate is",
    "row_ids": "the rows are",
    "loss": "the loss is",
}


def _differ(key: str, one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        bound = LOSS_TOLERANCE if key == "loss" else 1e-9
        return not abs(one - other) <= bound * max(abs(one), abs(other))
    return one != other


def _span(steps: list[int]) -> str:
    return f"{steps[0]} to {steps[-1]} ({len(steps)})" if steps else "none"
