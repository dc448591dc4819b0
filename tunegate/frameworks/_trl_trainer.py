"""TRL's `SFTTrainer` as a Tunegate trainer: its steps, our metrics, checkpoints and receipt."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tunegate.errors import ChangedSinceRelease, TrainerError
from tunegate.frameworks._trl_rows import dataset, load_tokenizer, quiet, through
from tunegate.frameworks.trl import render
from tunegate.types import Example, Json
from tunegate.worker import checkpoint, feed
from tunegate.worker.attempt import Attempt
from tunegate.worker.emit import Emit
from tunegate.worker.learner import Tried
from tunegate.worker.model import ADAPTER_FILE, Base, pick_device, set_adapter
from tunegate.worker.step import StepResult, answer_tokens, mean_loss

Positions = Callable[[int], list[int]]
"""Which rows an epoch trains, in order."""


@lru_cache(maxsize=1)
def _classes() -> tuple[type[Any], type[Any]]:
    """The trainer and its sampler, whose parents are imported only where they are needed."""
    from torch.utils.data import Sampler
    from trl import SFTTrainer

    class Ordered(Sampler):  # type: ignore[type-arg]
        """An epoch's rows in the given order; counts the epochs itself."""

        def __init__(self, positions: Positions, epoch: int) -> None:
            self.positions, self.epoch = positions, epoch

        def __iter__(self) -> Iterator[int]:
            self.epoch += 1
            return iter(self.positions(self.epoch - 1))

        def __len__(self) -> int:
            return len(self.positions(self.epoch))

    class Trainer(SFTTrainer):  # type: ignore[misc]
        """`SFTTrainer` whose row order is given, and which stops before it steps on nonsense."""

        positions: Positions
        first_epoch = 0

        def _get_train_sampler(self, train_dataset: Any = None) -> Any:
            return Ordered(self.positions, self.first_epoch)

        def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> float:
            norm = float(super()._get_grad_norm(model, grad_norm=grad_norm))
            if not math.isfinite(norm):
                raise TrainerError(
                    f"the gradient norm is {norm}: training diverged",
                    kind="diverged",
                    hint="lower train.learning_rate, or raise train.warmup_steps",
                )
            return norm

    return Trainer, Ordered


def make_trainer(
    job: Json, base_dir: Path, rows: Any, out_dir: Path, *, changes: Json | None = None
) -> Any:
    """A trainer on a dataset of rows; `changes` replace arguments of `SFTConfig`."""
    import torch
    from peft import LoraConfig
    from transformers.trainer_callback import PrinterCallback
    from trl import SFTConfig

    frozen = job["frozen"]
    settings = render(frozen)
    args = SFTConfig(
        output_dir=str(out_dir),
        use_cpu=not torch.cuda.is_available(),
        model_init_kwargs=settings["model_init_kwargs"],
        **{**settings["SFTConfig"], **(changes or {})},
    )
    trainer = _classes()[0](
        model=str(base_dir),
        args=args,
        train_dataset=rows,
        processing_class=load_tokenizer(base_dir),
        peft_config=LoraConfig(**settings["LoraConfig"]),
    )
    trainer.remove_callback(PrinterCallback)
    config = trainer.model.peft_config["default"]
    config.base_model_name_or_path = frozen["base"]["model"]
    config.revision = frozen["base"].get("revision")
    return trainer


@lru_cache(maxsize=1)
def _watch() -> type[Any]:
    from transformers import TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        """Tells each step with its loss, gradient norm, rate and seconds; True ends training."""

        def __init__(self, hear: Callable[[int, Json, float], bool]) -> None:
            self.hear = hear
            self.began = self.took_s = 0.0

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.began = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.took_s = time.monotonic() - self.began

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if "loss" in logs and self.hear(state.global_step, logs, self.took_s):
                control.should_training_stop = True

    return Watch


def _result(logs: Json, batch: Sequence[Example]) -> StepResult:
    loss = float(logs["loss"])
    if not math.isfinite(loss):
        raise TrainerError(
            f"the loss is {loss}: training diverged",
            kind="diverged",
            hint="lower train.learning_rate, or raise train.warmup_steps",
        )
    tokens = sum(len(row.input_ids) for row in batch)
    return StepResult(loss, float(logs["grad_norm"]), tokens, answer_tokens(batch))


class Engine:
    """A trainer as an attempt's engine."""

    def __init__(self, trainer: Any, held: Sequence[Example] = ()) -> None:
        self.trainer, self.held = trainer, held
        self.resumed: Path | None = None
        self.base = Base(trainer.model, pick_device(), plain="TRL pads")

    def write(self, folder: Path) -> None:
        """Transformers' own checkpoint, its adapter under the names that every trainer here uses.

        Its files with a pickle inside are read back as weights only, after their digests.
        """
        from transformers import Trainer

        trainer = self.trainer
        before, trainer.args.output_dir = trainer.args.output_dir, str(folder)
        try:
            Trainer._save_checkpoint(trainer, trainer.model, None)  # without TRL's model card
        finally:
            trainer.args.output_dir = before
        inner = folder / f"checkpoint-{trainer.state.global_step}"
        for path in inner.iterdir():
            path.rename(folder / path.name)
        inner.rmdir()
        (folder / "training_args.bin").unlink(missing_ok=True)  # a pickle with this machine's paths
        checkpoint.write_adapter(trainer.model, folder)
        for path in folder.iterdir():
            with path.open("rb") as handle:
                os.fsync(handle.fileno())

    def restore(self, folder: Path) -> None:
        """Take the adapter now; optimizer, schedule and generators when training goes on."""
        from safetensors.torch import load_file

        set_adapter(self.trainer.model, load_file(folder / ADAPTER_FILE))
        # transformers takes a folder inside a checkpoint that holds an adapter, as `best` does, for
        # a second adapter of the model: it sees the files alone.
        self.resumed = Path(self.trainer.args.output_dir, "resumed")
        shutil.rmtree(self.resumed, ignore_errors=True)
        self.resumed.mkdir(parents=True)
        for path in folder.iterdir():
            if path.is_file():
                (self.resumed / path.name).symlink_to(path.resolve())

    def validation_loss(self, watch: Callable[[int], None]) -> float:
        """As the native trainer computes it: a mean over tokens, not over batches."""
        return mean_loss(self.base, self.held, watch=watch)


def run(job: Json, emit: Emit) -> None:
    """Train, or go on; see `trl.train`."""
    quiet()
    rows = list(feed.examples(job, "train"))
    held = feed.trained_examples(job, "validation") if "validation" in job["frozen"]["data"] else []
    given = [row for row in rows if row.dropped is None]
    emit.progress("load", 0, 1)
    attempt_dir = Path(job["attempt_dir"])
    base_dir = Path(job["frozen"]["base"]["dir"])
    trainer = make_trainer(
        job, base_dir, dataset(given), attempt_dir / "trl", changes=_accumulated(job)
    )
    trained = _verified(job, trainer, rows)
    emit.log(f"{len(trained)} of {len(rows)} rows are trained")
    _write_settings(job, attempt_dir)
    engine = Engine(trainer, held)
    attempt = Attempt(job, emit, engine, trained, held)
    trainer.args.max_steps = attempt.planned
    trainer.positions = attempt.order.epoch

    def hear(step: int, logs: Json, took_s: float) -> bool:
        batch = [trained[place] for place in attempt.order.batch(step)]
        rate = float(logs["learning_rate"])
        attempt.after_step(_result(logs, batch), batch, rate=rate, took_s=took_s)
        return False

    trainer.add_callback(_watch()(hear))
    with attempt.running() as first:
        if first <= attempt.planned:
            trainer.first_epoch = (first - 1) // attempt.order.steps_per_epoch
            resumed = engine.resumed
            trainer.train(resume_from_checkpoint=str(resumed) if resumed else None)
    attempt.finish()
    shutil.rmtree(trainer.args.output_dir, ignore_errors=True)


def _accumulated(job: Json) -> Json:
    """Arguments for a batch that goes through the model in parts of `micro_batch` rows."""
    size, part = job["frozen"]["settings"]["train"]["batch_size"], job.get("micro_batch")
    if part is None:
        return {}
    return {"per_device_train_batch_size": part, "gradient_accumulation_steps": size // part}


def _verified(job: Json, trainer: Any, rows: Sequence[Example]) -> list[Example]:
    """The rows that the trainer will meet, in its order, held against what gate 2 saw.

    Raises ChangedSinceRelease where TRL lost a row or changed its labels.
    """
    size = job["frozen"]["settings"]["train"]["batch_size"]
    fed = list(through(trainer, trainer.train_dataset, batch_size=size))
    by_index = {row.index: row for row in fed}
    lost = [row.index for row in rows if row.dropped is None and row.index not in by_index]
    if lost:
        raise ChangedSinceRelease(
            f"TRL left out {len(lost)} rows that were to be trained, first row {lost[0]}",
            hint="run the checks again",
        )
    feed.verify_labels(job, [by_index.get(row.index, row) for row in rows])
    return fed


def _write_settings(job: Json, attempt_dir: Path) -> None:
    """The arguments as a file that stands beside the log; YAML, as its lines are JSON values."""
    lines = []
    for name, value in render(job["frozen"]).items():
        if isinstance(value, dict):
            lines.append(f"{name}:")
            lines += [f"  {key}: {json.dumps(item)}" for key, item in value.items()]
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    (attempt_dir / "trl.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


class Learner:
    """The wire test's trainer: learns given rows, then takes timed steps at rate zero."""

    def __init__(self, job: Json, base_dir: Path, emit: Emit) -> None:
        quiet()
        self.settings: Json = job["frozen"]["settings"]["train"]
        emit.progress("load", 0, 1)
        # A trainer is never without rows; these three tokens are replaced before any step.
        start = dataset([Example(0, [0, 0, 0], [0, 0, 0])])
        out_dir = Path(job["attempt_dir"], "trl")
        changes = {"lr_scheduler_type": "constant", "warmup_steps": 0}
        self.trainer = make_trainer(job, base_dir, start, out_dir, changes=changes)
        self.engine = Engine(self.trainer)
        self.base = self.engine.base

    def write(self, folder: Path) -> None:
        """Write a whole checkpoint's tensors."""
        self.engine.write(folder)

    def overfit(
        self, rows: Sequence[Example], *, order: feed.Order, cap: int,
        learned: Callable[[Sequence[StepResult]], bool],
    ) -> list[StepResult]:  # fmt: skip
        """Train on the rows until `learned` says so, at most `cap` steps."""
        results: list[StepResult] = []

        def hear(step: int, logs: Json, took_s: float) -> bool:
            results.append(_result(logs, [rows[place] for place in order.batch(step)]))
            return learned(results)

        rate = self.settings["learning_rate"]
        self._train(rows, order.epoch, size=order.batch_size, steps=cap, rate=rate, hear=hear)
        return results

    def try_out(
        self, batches: Sequence[Sequence[Example]], watch: Callable[[int], None]
    ) -> list[Tried]:
        """A step on each batch that leaves all weights as they are. Batches have one size."""
        tried: list[Tried] = []

        def hear(step: int, logs: Json, took_s: float) -> bool:
            tried.append(Tried(float(logs["loss"]), took_s))
            watch(step)
            return False

        rows = [row for batch in batches for row in batch]
        every = list(range(len(rows)))
        self._train(
            rows, lambda _: every, size=len(batches[0]), steps=len(batches), rate=0.0, hear=hear
        )
        return tried

    def most_tokens(self, examples: Sequence[Example]) -> int:
        """TRL pads a batch to its longest row."""
        return len(examples) * max(len(row.input_ids) for row in examples)

    def _train(
        self, rows: Sequence[Example], positions: Positions, *, size: int, steps: int, rate: float,
        hear: Callable[[int, Json, float], bool],
    ) -> None:  # fmt: skip
        trainer = self.trainer
        args = trainer.args
        trainer.train_dataset = trainer._prepare_dataset(
            dataset(rows), trainer.processing_class, args, args.packing, None, "train"
        )
        trainer.positions = positions
        args.per_device_train_batch_size = trainer._train_batch_size = size
        args.max_steps, args.learning_rate = steps, rate
        trainer.optimizer = None  # a fresh one at this rate
        watch = _watch()(hear)
        trainer.add_callback(watch)
        try:
            trainer.train()
        finally:
            trainer.remove_callback(watch)
