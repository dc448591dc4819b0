"""The batch that takes most memory fits, with room to spare, before the run meets it.

A pass proves: on the machine that trains, a step on the longest rows of train at the run's batch
size, and a validation pass over the longest held-out rows, stayed under 92 % of the memory that the
device has.

It does not prove it for other processes that come later to the same device.
"""

from __future__ import annotations

from tunegate.checks import CheckInputs
from tunegate.types import Finding, Json, Status, Verdict

WHERE = "machine"
ORDER = 140

FULL = 0.92
"""Share of the device's memory above which the next longer row may not fit."""

NOT_CHECKED = ("what other processes will take of the same device",)


def observe(inputs: CheckInputs) -> Json:
    """What the wire test measured on its longest batch."""
    return dict(inputs.measured["longest"])


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail where it only just fitted; one that does not fit ends the wire test as out_of_memory."""
    peak, device = observation["peak_memory_gib"], observation["device_memory_gib"]
    findings = []
    change = "lower train.batch_size or train.max_length, or take a larger device"
    if device is not None and peak > FULL * device:
        findings.append(
            Finding(
                f"the longest batch took {peak:.2f} of {device:.2f} GiB, over {100 * FULL:.0f} %",
                change=change,
            )
        )
    told = Status.CANNOT_TELL if device is None else Status.PASS
    return Verdict(
        check="longest_batch",
        status=Status.FAIL if findings else told,
        summary=f"{observation['rows']} rows of up to {observation['tokens']} tokens: "
        + f"{peak:.2f}"
        + (f" of {device:.2f} GiB" if device is not None else " GiB of an unknown size"),
        findings=tuple(findings),
        numbers={key: observation[key] for key in ("peak_memory_gib", "device_memory_gib")},
        not_checked=NOT_CHECKED,
    )
