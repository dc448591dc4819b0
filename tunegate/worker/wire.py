"""The wire test: learn 20 rows by heart, save, reload from disk, answer as serving would.

It ends with a few steps at the run's own batch size, the last on the longest rows of the data: what
a step and a save take, and the most memory, are measured there.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Protocol

from tunegate import frameworks
from tunegate.errors import DataError
from tunegate.types import Example, Json, Row
from tunegate.worker import checkpoint, pack, probe
from tunegate.worker.emit import Emit, write_json
from tunegate.worker.encode import answer_text, prompt_ids
from tunegate.worker.feed import Order, data_path, serving, trained_examples, verify_labels
from tunegate.worker.generate import Answer, Writer
from tunegate.worker.model import Base, adapter_tensors, load_merged, write_tiny_base
from tunegate.worker.rows import columns_of, read_rows
from tunegate.worker.step import StepResult, answer_tokens, knows, mean_loss
from tunegate.worker.train import build_stepper

BATCH = 4
RATE = 1e-3
"""On SmolLM2-135M this learns 20 rows in 20 to 25 steps; 2e-4 takes 35 (measured)."""
TINY_RATE = 1e-2
"""Of a random model: 20 rows take about 45 steps of all of them (measured)."""
STEP_CAP = 80
TINY_BATCH = 20
TINY_STEP_CAP = 150
LEARNED = 0.03
"""Share of the first loss under which an epoch's mean ends the learning; the gate asks for 0.1."""
TIMED_STEPS = 3


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

    def time(
        self, batches: Sequence[Sequence[Example]], watch: Callable[[int], None]
    ) -> list[float]:
        """Seconds of a step on each batch, all weights unchanged."""
        ...

    def most_tokens(self, examples: Sequence[Example]) -> int:
        """Tokens of the batch's largest forward pass: what activations are kept for."""
        ...


class _NativeLearner:
    """The native stepper; also of a framework that brings no learner of its own."""

    def __init__(self, job: Json, base_dir: Path, emit: Emit) -> None:
        self.stepper = build_stepper(job, base_dir, emit)
        self.base = self.stepper.base
        self.rate: float = job["frozen"]["settings"]["train"]["learning_rate"]

    def overfit(
        self, rows: Sequence[Example], *, order: Order, cap: int,
        learned: Callable[[Sequence[StepResult]], bool],
    ) -> list[StepResult]:  # fmt: skip
        results: list[StepResult] = []
        for step in range(1, cap + 1):
            batch = [rows[place] for place in order.batch(step)]
            results.append(self.stepper.update(batch, rate=self.rate))
            if learned(results):
                break
        return results

    def write(self, folder: Path) -> None:
        checkpoint.write_stepper(self.stepper, folder)

    def time(
        self, batches: Sequence[Sequence[Example]], watch: Callable[[int], None]
    ) -> list[float]:
        took_s = []
        for step, batch in enumerate(batches, start=1):
            began = time.monotonic()
            self.stepper.update(batch, rate=0.0)
            took_s.append(time.monotonic() - began)
            watch(step)
        return took_s

    def most_tokens(self, examples: Sequence[Example]) -> int:
        return self.stepper.most_tokens(examples)


def _learner(job: Json, base_dir: Path, emit: Emit) -> Learner:
    framework: Any = frameworks.load(job["frozen"]["settings"]["train"]["framework"])
    made: Learner = getattr(framework, "learner", _NativeLearner)(job, base_dir, emit)
    return made


def wire(job: Json, emit: Emit) -> None:
    """Run the test and write `observation.json`. Raises what training raises."""
    began = time.monotonic()
    job = _at_rate(job)
    attempt_dir = Path(job["attempt_dir"])
    data = trained_examples(job, "train")
    by_index = {example.index: example for example in data}
    rows = _choose(job, set(by_index), count=int(job.get("rows") or 20))
    chosen = [by_index[row.index] for row in rows]
    verify_labels({}, chosen)
    with tempfile.TemporaryDirectory(dir=attempt_dir) as name:
        scratch = Path(name)
        base_dir = Path(job["frozen"]["base"]["dir"])
        if job.get("tiny"):
            base_dir = scratch / "base"
            seed = job["frozen"]["settings"]["train"]["seed"]
            write_tiny_base(Path(job["frozen"]["base"]["dir"]), base_dir, seed=seed)
        learner = _learner(job, base_dir, emit)
        start_s = emit.t_s
        first_loss = mean_loss(learner.base, chosen)
        results = _overfit(job, learner, chosen, emit, enough=LEARNED * first_loss)
        keys = len(adapter_tensors(learner.base.model))
        saved = _save(learner, scratch, steps=len(results))
        timed = _measure(job, learner, data, emit)
        del learner
        emit.progress("reload", 0, 1)
        base = load_merged(base_dir, scratch / saved["path"])
        last_loss = mean_loss(base, chosen)
        answered = _answer(job, base, rows, chosen, emit)
    observation = {
        "rows": len(rows),
        **answered,
        "first_loss": first_loss,
        "last_loss": last_loss,
        "losses": [round(result.loss, 5) for result in results],
        "grad_norm_min": min(result.grad_norm for result in results),
        "steps": len(results),
        "learning_rate": job["frozen"]["settings"]["train"]["learning_rate"],
        "adapter_keys": keys,
        "save_s": saved["save_s"],
        "checkpoint_bytes": saved["bytes"],
        **timed,
        "start_s": start_s,
        "tiny": bool(job.get("tiny")),
        "device": probe.device_name(),
        "environment": probe.environment(),
        "seconds": round(time.monotonic() - began, 1),
    }
    write_json(attempt_dir / "observation.json", observation)
    emit.log(f"{answered['exact']} of {len(rows)} exact, {answered['stopped']} stopped")


def _at_rate(job: Json) -> Json:
    """The job with the test's own learning rate and no decay, dropout or clipping surprises."""
    frozen = job["frozen"]
    settings = frozen["settings"]
    train = {
        **settings["train"],
        "learning_rate": TINY_RATE
        if job.get("tiny")
        else max(RATE, settings["train"]["learning_rate"]),
        "weight_decay": 0.0,
        "lora": {**settings["train"]["lora"], "dropout": 0.0},
    }
    return {**job, "frozen": {**frozen, "settings": {**settings, "train": train}}}


def _choose(job: Json, usable: set[int], *, count: int) -> list[Row]:
    """Rows spread evenly over the classes, and within each over the file; prompts differ."""
    settings = job["frozen"]["settings"]["task"]
    groups: dict[str, dict[str, Row]] = {}
    frozen = job["frozen"]
    system, columns = frozen["prompt"]["system"], columns_of(frozen, "train")
    for row in read_rows(data_path(job, "train"), system=system, columns=columns):
        if row.index in usable and row.answer is not None and row.text is None:
            group = groups.setdefault(_class_of(row.answer, settings), {})
            group.setdefault(str(row.prompt), row)
    if not groups:
        raise DataError("no row of train has an answer to learn by heart")
    share = math.ceil(count / len(groups))
    spread = [_evenly(list(group.values()), share) for group in groups.values()]
    turns = [row for layer in zip_longest(*spread) for row in layer if row is not None]
    return turns[:count]


def _class_of(answer: str, task: Json) -> str:
    """The answer's class: the value at the task's pointer, or the answer itself of a label task."""
    pointer = task.get("class")
    if task.get("answer") == "label":
        return answer
    if not pointer:
        return ""
    try:
        value: Any = json.loads(answer)
        for key in pointer.strip("/").split("/"):
            value = value[int(key)] if isinstance(value, list) else value[key]
    except (ValueError, KeyError, IndexError, TypeError):
        return ""
    return str(value)


def _evenly(rows: Sequence[Row], count: int) -> list[Row]:
    count = min(count, len(rows))
    return [rows[place * len(rows) // count] for place in range(count)]


def _overfit(
    job: Json, learner: Learner, rows: Sequence[Example], emit: Emit, *, enough: float
) -> list[StepResult]:
    """Train until an epoch's mean loss is under `enough` and every answer known, or to the cap."""
    settings = job["frozen"]["settings"]["train"]
    order = Order(len(rows), TINY_BATCH if job.get("tiny") else BATCH, settings["seed"])
    cap = TINY_STEP_CAP if job.get("tiny") else STEP_CAP

    def learned(results: Sequence[StepResult]) -> bool:
        step = len(results)
        emit.progress("overfit", step, cap, loss=results[-1].loss, rows=order.batch_size)
        if not order.ends_epoch(step):
            return False
        mean = statistics.fmean(result.loss for result in results[-order.steps_per_epoch :])
        return mean < enough and knows(learner.base, rows)

    results = learner.overfit(rows, order=order, cap=cap, learned=learned)
    emit.log(f"overfit: {len(results)} steps, loss {results[0].loss:.3f} to {results[-1].loss:.4f}")
    return results


def _save(learner: Learner, scratch: Path, *, steps: int) -> Json:
    """Save a whole checkpoint; returns its line with its size."""
    (scratch / checkpoint.FOLDER).mkdir()
    state = {"step": steps, "training": "wire"}
    line = checkpoint.save(scratch, learner.write, state, best_dir=None, emit=Emit(scratch))
    return {**line, "bytes": checkpoint.folder_bytes(scratch / line["path"])}


def _measure(job: Json, learner: Learner, data: Sequence[Example], emit: Emit) -> Json:
    """Time of a step at the run's batch size, and the memory that the longest rows take."""
    settings = job["frozen"]["settings"]["train"]
    order = Order(len(data), settings["batch_size"], settings["seed"])
    batches = [[data[place] for place in order.batch(step)] for step in range(1, TIMED_STEPS + 1)]
    longest = sorted(data, key=lambda example: len(example.input_ids))[-order.batch_size :]
    batches.append(longest)
    took_s = learner.time(
        batches,
        lambda step: emit.progress("measure", step, TIMED_STEPS + 1, rows=order.batch_size),
    )
    return {
        "step_s_median": round(statistics.median(took_s[:TIMED_STEPS]), 4),
        "batch_size": order.batch_size,
        "peak_memory_gib": probe.peak_memory_gib(),
        "pack_tokens": learner.most_tokens(longest),
        "device_kind": learner.base.device.type,
    }


def _answer(
    job: Json, base: Base, rows: Sequence[Row], examples: Sequence[Example], emit: Emit
) -> Json:
    """Answers through the serving template, compared with the rows."""
    tokenizer, template = serving(job["frozen"])
    answers = [
        Answer(
            str(place),
            prompt_ids(row.prompt, tokenizer=tokenizer, template=template, tools=row.tools),
        )
        for place, row in enumerate(rows)
    ]
    room = max(answer_tokens([example]) for example in examples) + 8
    writer = Writer(base, stop_ids=job["frozen"]["tokenizer"]["stop_ids"], max_new_tokens=room)
    prefix = pack.shared_prefix([answer.prompt for answer in answers])
    for batch in writer.answer(answers, prefix=prefix, batch_size=len(answers)):
        emit.progress("answer", len(batch), len(answers))
    texts = [tokenizer.decode(answer.tokens) for answer in answers]
    wanted = [answer_text(row, tokenizer=tokenizer, template=template) for row in rows]
    pairs = [
        {"index": row.index, "prompt": row.prompt[-1].content, "expected": right,
         "output": text, "finish": answer.finish, "exact": text == right}
        for row, right, text, answer in zip(rows, wanted, texts, answers, strict=True)
    ]  # fmt: skip
    wrong_first = sorted(pairs, key=lambda pair: (pair["exact"], pair["index"]))
    return {
        "exact": sum(pair["exact"] for pair in pairs),
        "stopped": sum(answer.finish == "stop" for answer in answers),
        "samples": wrong_first[:3],
    }
