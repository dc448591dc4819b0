"""The run in small: the framework trains a random model of the base's shape, for some steps.

Everything but the weights is the run's own: its tokenizer, template, rows, framework and code. The
same job is run three times: straight through, with a stop half-way and a fresh process that goes
on, and for two steps with each batch split into single rows. Checks read what the runs left.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tunegate import frameworks
from tunegate.errors import NothingTrained, TrainerError
from tunegate.types import Example, Json
from tunegate.worker.emit import Emit, write_json
from tunegate.worker.model import ADAPTER_FILE, write_tiny_base

ROWS = 12
BATCH = 4
STEPS = 8
"""More than two epochs of `ROWS`, so that the stop falls into the second."""
HALF = 4
ACCUMULATED = 2
HELD = 4
"""Rows that stand in for the validation set."""
RATE = 1e-2
RESUME_LIMIT_S = 300

_ENTRY = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from tunegate.worker.main import main; sys.exit(main(sys.argv[2]))"
)


@dataclass(frozen=True)
class Rehearsal:
    """What the two runs left."""

    job: Json
    """Of the straight run; `job["frozen"]` is the run's own but for base, data and steps."""
    base_dir: Path
    straight: Path
    """Attempt folder of the run without a stop."""
    halved: Path
    """Attempt folder of the run that stopped after `HALF` steps and went on."""
    half_adapter: Path
    """The adapter's file as it was after `HALF` steps."""
    row_by_row: Path
    """Attempt folder of `ACCUMULATED` steps whose batches went through the model row by row."""

    def newest_adapter(self, attempt: Path) -> Path:
        """The adapter's file in the attempt's last checkpoint."""
        return _newest(attempt) / ADAPTER_FILE

    def metrics(self, attempt: Path) -> list[Json]:
        """Lines of an attempt's metrics.jsonl."""
        return [json.loads(line) for line in (attempt / "metrics.jsonl").read_text().splitlines()]

    def steps(self, attempt: Path) -> list[Json]:
        """The training steps among the metrics, in order."""
        return [line for line in self.metrics(attempt) if line.get("loss") is not None]


def rehearse(job: Json, rows: Sequence[Example], scratch: Path, emit: Emit) -> Rehearsal:
    """Make both runs in `scratch`, on some of the trained `rows` of the job.

    Raises what training raises, and TrainerError where the stopped run cannot be taken up again.
    """
    base_dir = scratch / "rehearsal"
    settings = job["frozen"]["settings"]["train"]
    write_tiny_base(Path(job["frozen"]["base"]["dir"]), base_dir, seed=settings["seed"])
    small = _small(job, base_dir, rows)
    framework = frameworks.load(settings["framework"])
    straight = {**small, "attempt_dir": str(scratch / "straight")}
    emit.progress("rehearse", 0, 4)
    framework.train(straight, Emit(Path(straight["attempt_dir"])))
    if not (scratch / "straight" / "receipt.json").is_file():
        raise NothingTrained(
            "asked for a few steps on a random model, the trainer came to its end without a "
            "receipt: it does nothing",
            hint="read the log; an end without an error is never taken for success",
        )
    emit.progress("rehearse", 1, 4)
    halved = {**small, "attempt_dir": str(scratch / "halved")}
    train_until(HALF, halved)
    emit.progress("rehearse", 2, 4)
    checkpoint = _newest(scratch / "halved")
    half_adapter = scratch / "half_adapter.safetensors"
    half_adapter.write_bytes((checkpoint / ADAPTER_FILE).read_bytes())
    resumed = {**halved, "resume_from": str(checkpoint)}
    run_alone(resumed, log=scratch / "resumed.log", limit_s=RESUME_LIMIT_S)
    emit.progress("rehearse", 3, 4)
    row_by_row = {**small, "attempt_dir": str(scratch / "row_by_row"), "micro_batch": 1}
    train_until(ACCUMULATED, row_by_row)
    emit.progress("rehearse", 4, 4)
    return Rehearsal(
        job=straight,
        base_dir=base_dir,
        straight=scratch / "straight",
        halved=scratch / "halved",
        half_adapter=half_adapter,
        row_by_row=scratch / "row_by_row",
    )


def train_until(step: int, job: Json) -> None:
    """Train, told to stop after a step."""
    framework = frameworks.load(job["frozen"]["settings"]["train"]["framework"])
    try:
        framework.train({**job, "stop_after": step}, Emit(Path(job["attempt_dir"])))
    except KeyboardInterrupt:
        return
    raise TrainerError(f"told to stop after step {step}, the trainer went on to the end")


def _small(job: Json, base_dir: Path, rows: Sequence[Example]) -> Json:
    """The job on the random base: few rows, some of them held out, few steps, no dropout."""
    wanted = min(ROWS + HELD, len(rows))
    picked = [rows[place * len(rows) // wanted].index for place in range(wanted)]
    held = picked[::HELD][:HELD] if wanted > HELD else picked
    trained = [index for index in picked if index not in held] or picked
    frozen = job["frozen"]
    settings = frozen["settings"]
    train = {
        **settings["train"],
        "batch_size": min(BATCH, len(trained)),
        "epochs": STEPS,
        "total_steps": STEPS,
        "warmup_steps": 2,
        "eval_every_steps": None,
        "learning_rate": RATE,
        "precision": "fp32",
        "lora": {**settings["train"]["lora"], "dropout": 0.0},
    }
    return {
        **{key: job[key] for key in ("format", "data_dir", "threads", "run_digest")},
        "kind": "train",
        "frozen": {
            **frozen,
            "settings": {**settings, "train": train},
            "base": {**frozen["base"], "dir": str(base_dir)},
            "data": {**frozen["data"], "validation": frozen["data"]["train"]},
        },
        "rows": {"train": trained, "validation": held},
        "training": "rehearsal",
    }


def _newest(attempt: Path) -> Path:
    """The last checkpoint that the attempt lists."""
    listed = attempt / "checkpoints.jsonl"
    lines = listed.read_text().splitlines() if listed.is_file() else []
    if not lines:
        raise TrainerError(f"the rehearsal left no checkpoint in {attempt.name}")
    return attempt / str(json.loads(lines[-1])["path"])


def run_alone(job: Json, *, log: Path, limit_s: float) -> None:
    """Run a job in a process of its own, standard input closed, output to a file.

    Raises TrainerError with the log's end where it fails; subprocess.TimeoutExpired after `limit_s`
    seconds, when the process is killed.
    """
    path = Path(job["attempt_dir"]) / "job.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, job)
    home = str(Path(__file__).parents[2])  # the archive that was sent, or a checkout
    with log.open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-c", _ENTRY, home, str(path)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            timeout=limit_s,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise TrainerError(f"a {job['kind']} job ended with code {done.returncode}:\n{tail}")
