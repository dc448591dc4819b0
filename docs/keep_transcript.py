"""Go the way of the demo step by step and keep what each command prints, for docs/tutorial.md.

    python docs/keep_transcript.py runs/tutorial

Takes as long as the demo. Writes docs/transcripts/tutorial.json: every command with its exit code
and what it printed, the commit, and the machine. `make docs` makes the page of it.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "transcripts" / "tutorial.json"

STEPS = (
    ("freeze", "tunegate freeze {run}"),
    ("research", "tunegate research {run}"),
    ("check", "tunegate check {run}"),
    ("wire", "tunegate wire {run}"),
    ("raw", "tunegate eval {run} --column raw"),
    ("dry_run", "tunegate train {run} --dry-run"),
    ("quote", "tunegate quote {run}"),
    ("release", "tunegate release {run}"),
    ("status", "tunegate status {run}"),
    ("train", "tunegate train {run}"),
    ("eval", "tunegate eval {run}"),
    ("decide", "tunegate decide {run}"),
    ("record", "tunegate record {run}"),
    ("report", "tunegate report {run}"),
    ("incident", "tunegate check examples/incident/run-raw-text.yaml"),
)
"""Name and command of each step, in order."""


def main() -> None:
    """Run all steps on a fresh copy of the demo and write the transcript."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("run", type=Path, help="a folder that is not there yet, under this one")
    options = parser.parse_args()
    if options.run.exists():
        parser.error(f"{options.run} is there already")
    if _git("status", "--porcelain"):
        parser.error("there are uncommitted changes; commit, so that others can repeat it")
    for name in ("data", "prompts"):
        shutil.copytree(ROOT / "examples/triage" / name, options.run / name)
    for name in ("run.yaml", "answer.schema.json"):
        shutil.copy(ROOT / "examples/triage" / name, options.run / name)
    steps = [_step(name, command.format(run=options.run)) for name, command in STEPS]
    receipt = json.loads((options.run / "attempts/1/receipt.json").read_text(encoding="utf-8"))
    made = {"commit": _git("rev-parse", "HEAD"), "device": receipt["device"]}
    FILE.parent.mkdir(exist_ok=True)
    text = json.dumps({"made": made, "steps": steps}, indent=1, ensure_ascii=False)
    FILE.write_text(text + "\n", encoding="utf-8")
    print(f"wrote {FILE}; now `make docs`")


def _step(name: str, command: str) -> dict[str, Any]:
    print(f"$ {command}", flush=True)
    began = time.monotonic()
    program = [sys.executable, "-c", "from tunegate.surfaces.cli import main; main()"]
    done = subprocess.run(
        [*program, *command.split()[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    # Progress goes to stderr as well; of a refusal the error is what counts there.
    lines = done.stderr.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("error:")), len(lines))
    out = {
        "name": name,
        "command": command,
        "exit": done.returncode,
        "seconds": round(time.monotonic() - began, 1),
        "stdout": done.stdout.rstrip(),
        "stderr": "\n".join(lines[start:]),
    }
    print(out["stdout"] or out["stderr"], flush=True)
    if done.returncode not in (0, 3):
        sys.exit(f"{command}: exit code {done.returncode}\n{done.stderr}")
    return out


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
