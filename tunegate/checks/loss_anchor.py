"""The framework's first loss is the loss of those rows, and its batches add up.

A pass proves: on the machine that trains and in the run's own precision, the loss that the
framework logs for its first step on the real base is, within 2 %, the one that transformers' own
model gives for the same rows, one at a time in float32, with Tunegate's own labels. On a random
model of the base's shape, a batch trained at once and row by row gives the same losses and gradient
norms within 1 %. Where the run names an anchor with metrics of the same rows, its first steps
follow the anchor's losses within 5 %.

It does not prove that later steps follow the anchor: the curves show those.
"""

from __future__ import annotations

from pathlib import Path

from tunegate.checks import CheckInputs
from tunegate.checks._plain import apart, load_plain, mean_of, plain_losses, rows_of
from tunegate.types import Finding, Json, Status, Verdict

WHERE = "machine"
ORDER = 130

LOSS_BAND = 0.02
ACCUMULATION_BAND = 0.01
ANCHOR_BAND = 0.05

NOT_CHECKED = ("steps after the first ones: the curves show them",)


def observe(inputs: CheckInputs) -> Json:
    """Compute the first batch's loss the slow way, and set the accumulated run beside the whole."""
    rehearsal, measured = inputs.rehearsed, inputs.measured
    first = measured["first_step"]
    job = {**inputs.job, "rows": {"train": first["rows"]}}
    model = load_plain(Path(measured["base_dir"]))
    plain = mean_of(plain_losses(model, rows_of(job, "train").values()))
    whole = rehearsal.steps(rehearsal.straight)
    split = rehearsal.steps(rehearsal.row_by_row)
    return {
        "rows": first["rows"],
        "framework_loss": first["loss"],
        "plain_loss": plain,
        "apart": apart(first["loss"], plain),
        "accumulation": [
            {
                "step": one["step"],
                **{
                    key: {"whole": one[key], "row_by_row": other[key]}
                    for key in ("loss", "grad_norm")
                },
            }
            for one, other in zip(whole, split, strict=False)
        ],
        "anchor": measured.get("anchor"),
    }


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail outside a band; an anchor that met other rows is told, not judged."""
    findings, warnings = [], []
    if not observation["apart"] <= LOSS_BAND:
        findings.append(
            Finding(
                f"the framework's first loss is {observation['framework_loss']:.4f}; the same rows "
                f"have {observation['plain_loss']:.4f}",
                change="mask, template or the mean over tokens differ on the way to the loss",
            )
        )
    if not observation["accumulation"]:
        findings.append(Finding("the run that accumulates row by row left no step"))
    for step in observation["accumulation"]:
        for key in ("loss", "grad_norm"):
            one, other = step[key]["whole"], step[key]["row_by_row"]
            if not apart(one, other) <= ACCUMULATION_BAND:
                findings.append(
                    Finding(
                        f"step {step['step']}: {key} {one:.4f} as one batch, {other:.4f} row by "
                        "row: the mean is over rows or parts and not over the batch's tokens",
                        change="take a version of the trainer that counts the tokens of the whole "
                        "batch when it accumulates",
                    )
                )
    for step in observation["anchor"] or ():
        if sorted(step["row_ids"]) != sorted(step["anchor_row_ids"]):
            warnings.append(
                Finding(f"step {step['step']}: the anchor trained other rows; not compared")
            )
        elif not apart(step["loss"], step["anchor_loss"]) <= ANCHOR_BAND:
            findings.append(
                Finding(
                    f"step {step['step']}: the loss is {step['loss']:.4f}, the anchor's on the "
                    f"same rows {step['anchor_loss']:.4f}",
                    change="compare the effective settings: tunegate research RUN",
                )
            )
    return Verdict(
        check="loss_anchor",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"first loss {observation['framework_loss']:.4f}, plain "
        f"{observation['plain_loss']:.4f} on {len(observation['rows'])} rows; "
        f"{len(observation['accumulation'])} steps row by row compared",
        findings=tuple(findings[:20]),
        warnings=tuple(warnings[:20]),
        numbers={key: observation[key] for key in ("framework_loss", "plain_loss", "apart")},
        not_checked=(
            *NOT_CHECKED,
            *([] if observation["anchor"] else ["an anchor's losses: the run names none"]),
        ),
    )
