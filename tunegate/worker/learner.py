"""A framework's trainer as the wire test drives it: learn given rows, try steps out."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tunegate import frameworks
from tunegate.types import Example, Json
from tunegate.worker import checkpoint
from tunegate.worker.emit import Emit
from tunegate.worker.feed import Order
from tunegate.worker.model import Base
from tunegate.worker.step import StepResult
from tunegate.worker.train import build_stepper


class Tried(NamedTuple):
    """A step whose weights were left as they are."""

    loss: float
    seconds: float


class Learner(Protocol):
    """A framework's trainer, as far as the wire test needs it."""

    base: Base
    """The model with its adapter."""

    def overfit(
        self, rows: Sequence[Example], *, order: Order, cap: int,
        learned: Callable[[Sequence[StepResult]], bool],
    ) -> list[StepResult]:  # fmt: skip
        """Train on the rows until `learned` says so, at most `cap` steps."""
        ...

    def write(self, folder: Path) -> None:
        """Write a whole checkpoint's tensors."""
        ...

    def try_out(
        self, batches: Sequence[Sequence[Example]], watch: Callable[[int], None]
    ) -> list[Tried]:
        """A step on each batch that leaves all weights as they are. Batches have one size."""
        ...

    def most_tokens(self, examples: Sequence[Example]) -> int:
        """Tokens of the batch's largest forward pass: what activations are kept for."""
        ...


class NativeLearner:
    """The native stepper; also of a framework that brings no learner of its own."""

    def __init__(self, job: Json, base_dir: Path, emit: Emit) -> None:
        self.stepper = build_stepper(job, base_dir, emit)
        self.base = self.stepper.base
        self.rate: float = job["frozen"]["settings"]["train"]["learning_rate"]

    def overfit(
        self, rows: Sequence[Example], *, order: Order, cap: int,
        learned: Callable[[Sequence[StepResult]], bool],
    ) -> list[StepResult]:  # fmt: skip
        """Train on the rows until `learned` says so, at most `cap` steps."""
        results: list[StepResult] = []
        for step in range(1, cap + 1):
            batch = [rows[place] for place in order.batch(step)]
            results.append(self.stepper.update(batch, rate=self.rate))
            if learned(results):
                break
        return results

    def write(self, folder: Path) -> None:
        checkpoint.write_stepper(self.stepper, folder)

    def try_out(
        self, batches: Sequence[Sequence[Example]], watch: Callable[[int], None]
    ) -> list[Tried]:
        """A step on each batch that leaves all weights as they are."""
        tried = []
        for step, batch in enumerate(batches, start=1):
            began = time.monotonic()
            loss = self.stepper.update(batch, rate=0.0).loss
            tried.append(Tried(loss, time.monotonic() - began))
            watch(step)
        return tried

    def most_tokens(self, examples: Sequence[Example]) -> int:
        return self.stepper.most_tokens(examples)


def load_learner(job: Json, base_dir: Path, emit: Emit) -> Learner:
    """The learner of the job's framework, on a fresh adapter; the native one where it has none."""
    framework: Any = frameworks.load(job["frozen"]["settings"]["train"]["framework"])
    made: Learner = getattr(framework, "learner", NativeLearner)(job, base_dir, emit)
    return made
