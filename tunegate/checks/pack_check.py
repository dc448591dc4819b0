"""Rows that share a pack stay strangers, and no token that carries loss is lost on the way.

A pass proves, on rows of the run and a random model of the base's shape: in every step of the
rehearsal the framework trained as many answer tokens as the step's rows have; and its loss of the
first step, packed or padded as the run packs, is that of the same rows computed one at a time by
transformers' own model (within 0.01 % in float32). A row that saw its neighbour, or whose positions
ran on, would change it.

It does not prove that the kernels of another machine or another precision do the same: loss_anchor
compares them on the machine that trains.
"""

from __future__ import annotations

from tunegate.checks import CheckInputs
from tunegate.checks._plain import apart, load_plain, mean_of, plain_losses, rows_of
from tunegate.types import IGNORED, Finding, Json, Status, Verdict

WHERE = "machine"
ORDER = 90

TOLERANCE = 1e-4
"""Relative; float32 sums in another order differ by less than a tenth of it."""

NOT_CHECKED = ("other precisions and kernels than those of the rehearsal: loss_anchor looks there",)


def observe(inputs: CheckInputs) -> Json:
    """Compare the steps of the rehearsal with its rows alone."""
    rehearsal = inputs.rehearsed
    rows = rows_of(rehearsal.job, "train")
    steps = rehearsal.steps(rehearsal.straight)
    first = [rows[index] for index in steps[0]["row_ids"]]
    plain = mean_of(plain_losses(load_plain(rehearsal.base_dir), first))
    counts = [
        {
            "step": step["step"],
            "trained": step["answer_tokens"],
            "expected": sum(
                label != IGNORED for index in step["row_ids"] for label in rows[index].labels[1:]
            ),
        }
        for step in steps
    ]
    return {
        "rows": sorted(rows),
        "steps": len(steps),
        "lost": [count for count in counts if count["trained"] != count["expected"]][:20],
        "answer_tokens": sum(count["expected"] for count in counts),
        "framework_loss": steps[0]["loss"],
        "plain_loss": plain,
        "apart": apart(steps[0]["loss"], plain),
    }


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail where a token was lost or the loss of the pack is not that of its rows."""
    findings = [
        Finding(
            f"step {count['step']} trained {count['trained']} answer tokens, "
            f"its rows have {count['expected']}"
        )
        for count in observation["lost"]
    ]
    if not observation["apart"] <= TOLERANCE:
        findings.append(
            Finding(
                f"the loss of a batch is {observation['framework_loss']:.5f}, that of its rows "
                f"one at a time {observation['plain_loss']:.5f}: rows see each other, or their "
                "positions run on",
                change="turn packing off, or take an attention backend that keeps rows apart",
            )
        )
    return Verdict(
        check="pack_check",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"{observation['answer_tokens']} answer tokens in {observation['steps']} steps; "
        f"batch and single rows agree within {observation['apart']:.1e}",
        findings=tuple(findings[:20]),
        numbers={key: observation[key] for key in ("framework_loss", "plain_loss", "apart")},
        not_checked=NOT_CHECKED,
    )
