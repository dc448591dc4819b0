"""Preparing the data ends, on the machine that trains, in a time that fits the session.

A pass proves: the framework's own preparation of one row in twenty (at least 20 rows, at most
2,000), in a process of its own with standard input closed and output to a file, came to its end
within two minutes, and at that speed all rows are ready within half an hour, the time after which
ranks that wait for one that prepares give up, and within a fifth of the run's hours.

It does not prove that a network file system is as fast tomorrow.
"""

from __future__ import annotations

import subprocess
import time

from tunegate.checks import CheckInputs
from tunegate.errors import TrainerError
from tunegate.types import Finding, Json, Status, Verdict
from tunegate.worker.rehearse import run_alone

WHERE = "machine"
ORDER = 80

SHARE = 20
LEAST, MOST = 20, 2_000
LIMIT_S = 120.0
RANKS_WAIT_S = 1_800.0
PART_OF_SESSION = 0.2

NOT_CHECKED = ("how fast a network file system will be later",)


def observe(inputs: CheckInputs) -> Json:
    """Prepare a part of the rows in a process of its own."""
    rehearsal = inputs.rehearsed
    total = int(inputs.frozen["data"]["train"]["rows"])
    count = min(total, max(LEAST, min(MOST, total // SHARE)))
    picked = [place * total // count for place in range(count)]
    folder = rehearsal.base_dir.parent / "prepared"
    job = {
        **rehearsal.job,
        "kind": "batches",
        "attempt_dir": str(folder),
        "rows": {"train": picked, "validation": []},
    }
    began = time.monotonic()
    ended: Json = {"error": None, "timed_out": False}
    try:
        run_alone(job, log=folder.with_suffix(".log"), limit_s=LIMIT_S)
    except subprocess.TimeoutExpired:
        ended["timed_out"] = True
    except TrainerError as error:
        ended["error"] = str(error)
    return {
        **ended,
        "rows": count,
        "rows_in_file": total,
        "seconds": round(time.monotonic() - began, 2),
        "limit_s": LIMIT_S,
    }


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail where it did not end, or would not in time."""
    rows, total = observation["rows"], observation["rows_in_file"]
    expected_s = observation["seconds"] * total / max(rows, 1)
    hours = float(frozen["settings"]["limits"]["hours"])
    findings = []
    if observation["timed_out"]:
        findings.append(
            Finding(
                f"preparing {rows} rows did not end within {observation['limit_s']:.0f} s: it "
                "waits for something, or its processes block each other",
                change="prepare in one process, and before the machine is paid for",
            )
        )
    elif observation["error"]:
        findings.append(Finding(observation["error"]))
    else:
        for limit_s, text in (
            (RANKS_WAIT_S, "ranks that wait for it give up after"),
            (PART_OF_SESSION * 3600 * hours, "a fifth of the run's hours is"),
        ):
            if expected_s > limit_s:
                findings.append(
                    Finding(
                        f"preparing all {total} rows will take about {expected_s / 60:.0f} min; "
                        f"{text} {limit_s / 60:.0f} min",
                        change="prepare the rows before the machine is paid for",
                    )
                )
    return Verdict(
        check="prep_probe",
        status=Status.FAIL if findings else Status.PASS,
        summary=f"{rows} of {total} rows prepared in {observation['seconds']:.1f} s",
        findings=tuple(findings),
        numbers={"rows": rows, "seconds": observation["seconds"]},
        not_checked=NOT_CHECKED,
    )
