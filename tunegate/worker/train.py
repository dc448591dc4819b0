"""The native trainer: LoRA on packed rows, validated, saved so that it resumes exactly."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tunegate.types import Example, Json
from tunegate.worker import checkpoint, pack
from tunegate.worker.attempt import Attempt
from tunegate.worker.emit import Emit
from tunegate.worker.feed import examples, trained_examples, verify_labels
from tunegate.worker.model import Base, attach_lora, load_base
from tunegate.worker.step import Stepper, learning_rate, mean_loss


def build_stepper(job: Json, base_dir: Path, emit: Emit) -> Stepper:
    """Load the base, attach a fresh adapter, make the optimizer: all that a step needs."""
    frozen = job["frozen"]
    settings = frozen["settings"]["train"]
    emit.progress("load", 0, 1)
    base = load_base(base_dir, precision=settings["precision"])
    attach_lora(
        base,
        settings["lora"],
        seed=settings["seed"],
        name=frozen["base"]["model"],
        revision=frozen["base"].get("revision"),
    )
    if base.plain:
        emit.log(f"rows are padded, not packed: {base.plain}")
    return Stepper(
        base,
        weight_decay=settings["weight_decay"],
        max_grad_norm=settings["max_grad_norm"],
        # Dropout draws anew for every row, so that rows cannot share a computation.
        share_prefix=not settings["lora"]["dropout"],
        # A pack is never smaller than a row, so that this asks for single rows.
        pack_tokens=1 if job.get("micro_batch") else pack.PACK_TOKENS,
    )


def train(job: Json, emit: Emit) -> None:
    """Train as the job says, from its checkpoint where it names one; leaves adapter and receipt.

    Raises: DataError, UsageError for inputs; ChangedSinceRelease where labels or checkpoint are not
    those of the release; TrainerError (`diverged`, `disk_full`, `out_of_memory`); after a
    checkpoint, KeyboardInterrupt where the process was told to stop, and BudgetReached where
    `ceiling_s` seconds are trained.
    """
    rows = list(examples(job, "train"))
    verify_labels(job, rows)
    kept = [row for row in rows if row.dropped is None]
    emit.log(f"{len(kept)} of {len(rows)} rows are trained")
    validation = (
        trained_examples(job, "validation") if "validation" in job["frozen"]["data"] else []
    )
    stepper = build_stepper(job, Path(job["frozen"]["base"]["dir"]), emit)
    attempt = Attempt(job, emit, _Engine(stepper, validation), kept, validation)
    settings = attempt.settings
    with attempt.running() as first:
        for step in range(first, attempt.planned + 1):
            began = time.monotonic()
            batch = [kept[position] for position in attempt.order.batch(step)]
            rate = learning_rate(
                step,
                peak=settings["learning_rate"],
                schedule=settings["schedule"],
                warmup=settings["warmup_steps"],
                total=attempt.planned,
            )
            result = stepper.update(batch, rate=rate)
            took_s = time.monotonic() - began
            attempt.after_step(result, batch, rate=rate, took_s=took_s)
    attempt.finish()


@dataclass
class _Engine:
    """The native stepper as an attempt's engine."""

    stepper: Stepper
    held: list[Example]

    @property
    def base(self) -> Base:
        return self.stepper.base

    def write(self, folder: Path) -> None:
        checkpoint.write_stepper(self.stepper, folder)

    def restore(self, folder: Path) -> None:
        checkpoint.restore_stepper(self.stepper, folder)

    def validation_loss(self, watch: Callable[[int], None]) -> float:
        return mean_loss(self.stepper.base, self.held, watch=watch)
