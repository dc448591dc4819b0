"""docs/tutorial.md: the demo step by step; what commands print is read from a kept transcript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parent.parent / "transcripts" / "tutorial.json"
SOURCE = "docs/transcripts/tutorial.json (kept by docs/keep_transcript.py)"

LONGEST = 40
"""Lines of output that are shown."""

HEAD = """# Tutorial: the demo, step by step

`make demo` does all of this in one go. Here the same run is made by hand, one command at
a time, so that you see what each one looks at. What the commands print below was kept
from a real run on {device} (commit `{commit}`); yours will differ in the last digits and
in time.

The task: messages to the support desk of a shop, to be sorted into 13 classes, one of
which means "none of these". The model: SmolLM2-135M-Instruct, small enough for two
processor cores. Its 135 million weights are few, so do not judge fine-tuning by its
score; judge the way there.

The ideas behind the steps are in [protocol.md](protocol.md), every key of the run file in
[run-file.md](run-file.md), and what to do with an error in [errors.md](errors.md).

## Before you start

    make setup
    source .venv/bin/activate
    mkdir -p {run}
    cp -r examples/triage/data examples/triage/prompts examples/triage/run.yaml \\
      examples/triage/answer.schema.json {run}

A run is a folder. `run.yaml` in it names the task, the files and the base model; all that
the run makes is written beside it. Open `{run}/run.yaml`, and two rows of the training
data:

    head -n 2 {run}/data/train.jsonl
"""

PARTS: tuple[tuple[str, str, str, str], ...] = (
    (
        "freeze",
        "1. Freeze the inputs",
        "Every file, the base model, the prompt and every setting get a digest. From here on a "
        "changed byte is noticed.",
        "Change a word in a data file, and the next command notices, freezes anew, and what was "
        "measured on the old file counts as stale.",
    ),
    (
        "research",
        "2. Gate 1: research",
        "Which settings will really be used, and why? Each line is a setting that you did not "
        "write down, with the reason for the value it got.",
        "Read the warning, where there is one: it says how small a difference your test set can "
        "show. A setting outside its usual band would close the gate until you answer for it in "
        "the run file, under `research.answers`.",
    ),
    (
        "check",
        "3. Gate 2: look at every row",
        "Several checks, each over all rows. The most important one, `mask_exact`, decodes the "
        "tokens that would carry loss and compares them with the answers.",
        "What was seen lies in `evidence/`, one file a check; what each check proves and what it "
        "does not stands in [checks.md](checks.md). How a refusal looks is shown at the end of "
        "this page.",
    ),
    (
        "wire",
        "4. Gate 2: the wire test",
        "A rehearsal of the whole chain: learn 20 rows by heart, save, load from disk, ask for "
        "the answers back. If 20 rows cannot be learned, more will not be.",
        "It also measures what a step, a save and the longest rows take. The quote below rests on "
        "that.",
    ),
    (
        "raw",
        "5. The base at its best",
        "Before anything is trained, the base model gets its best chance: candidate prompts, with "
        "and without worked examples, with and without holding the output to the schema. The "
        "best is chosen on validation rows and then answers the test rows.",
        "If the base already does what you need, you are done, and have saved a training.",
    ),
    (
        "dry_run",
        "6. All short of the launch",
        "The settings in the trainer's own words, the archive that would be sent, the machine.",
        "",
    ),
    (
        "quote",
        "7. What it will take",
        "Time, money and memory. Each memory line is a product that you can check by hand; the "
        "wire test's peak stands beside the sum.",
        "Activations are what a step keeps in memory for its way back; they grow with the tokens "
        "of a batch and not with the size of the file. If memory is short, halve "
        "`train.batch_size`.",
    ),
    (
        "release",
        "8. Gate 3: the release",
        "What costs money waits here for a person at a terminal. This run is free and all evidence "
        "is green, so policy releases it.",
        "What a release binds: [release.md](release.md). It runs the checks again first: evidence "
        "is not trusted twice.",
    ),
    (
        "status",
        "Where am I?",
        "At any time, after any crash:",
        "",
    ),
    (
        "train",
        "9. Train",
        "On a terminal you see a bar with loss and time left. Press Ctrl-C if you like: the same "
        "command goes on from the last checkpoint, to the same result.",
        "The line above is printed only if the receipt proves it: steps, finite losses, gradients, "
        "changed weights, changed answers. The adapter is `attempts/1/adapter`.",
    ),
    (
        "eval",
        "10. Evaluate",
        "The whole test set, read once, in three columns: the base with its best prompt, the tuned "
        "model, the teacher. Numbers in brackets are 95 % intervals.",
        "",
    ),
    (
        "decide",
        "11. Decide",
        "One next step, by the first rule that fires ([decisions.md](decisions.md)).",
        "It says what to do, with which classes, and how many turns of a knob are left before the "
        "data has to change.",
    ),
    (
        "record",
        "12. Record, and read the report",
        "Everything in one file, for the next run and for whoever asks later. The report is a "
        "page that stands alone and loads nothing; `report.md` says the same in short.",
        "",
    ),
    ("report", "", "", ""),
)
"""Step of the transcript, heading, what comes before its output, and what comes after."""

TAIL_BEFORE = """## What a refusal looks like

`examples/incident` holds a run file whose rows reach the trainer as raw text, prompt and
answer in one. Nothing would crash, the loss would fall, and the model would mostly learn
to repeat prompts. Gate 2 says:
"""

TAIL = """The exit code is {exit}: a gate is closed. The codes are a promise, so a script or a
coding agent can go by them; with `--json` each command prints one object instead of text.

## Your own data

Copy `run.yaml`, put your files in place of the example's, and go the same way, or let
`tunegate go run.yaml` take all steps that are allowed. When it stops, it says why and
what to run next. How to do the same from Python: [python.md](python.md).
"""


def render() -> str:
    """The page's text."""
    kept = json.loads(FILE.read_text(encoding="utf-8"))
    steps: dict[str, dict[str, Any]] = {step["name"]: step for step in kept["steps"]}
    made = kept["made"]
    run = steps["freeze"]["command"].split()[-1]
    out = [HEAD.format(device=made["device"], commit=made["commit"][:12], run=run)]
    for name, heading, before, after in PARTS:
        if heading:
            out += [f"## {heading}", ""]
        if before:
            out += [before, ""]
        out += [_shown(steps[name]), ""]
        if after:
            out += [after, ""]
    incident = steps["incident"]
    out += [TAIL_BEFORE, _shown(incident), "", TAIL.format(exit=incident["exit"])]
    return "\n".join(out)


def _shown(step: dict[str, Any]) -> str:
    """The command and what it printed, as an indented block."""
    lines = [f"$ {step['command']}"]
    lines += [line for line in (step["stdout"], step["stderr"]) if line]
    text = "\n".join(lines).splitlines()
    if len(text) > LONGEST:
        text = [*text[:LONGEST], f"... and {len(text) - LONGEST} lines more"]
    return "\n".join(f"    {line}".rstrip() for line in text)
