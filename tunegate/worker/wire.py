"""The wire test: learn 20 rows by heart, save, reload from disk, answer as serving would.

Then a few steps at the run's own batch size, the first on the longest rows of the data, show what a
step and a save take, and the most memory. Last the run is rehearsed on a random model, and the
checks of the machine look at that.
"""

from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from tunegate import checks, frameworks
from tunegate.errors import DataError
from tunegate.types import Example, Json, Row
from tunegate.worker import checkpoint, pack, probe
from tunegate.worker.emit import Emit, write_json
from tunegate.worker.encode import answer_text, prompt_ids
from tunegate.worker.feed import Order, data_path, serving, trained_examples, verify_labels
from tunegate.worker.generate import Answer, Writer
from tunegate.worker.learner import Learner, load_learner
from tunegate.worker.model import Base, adapter_tensors, load_merged, write_tiny_base
from tunegate.worker.rehearse import rehearse, train_until
from tunegate.worker.rows import columns_of, read_rows
from tunegate.worker.step import StepResult, answer_tokens, knows, mean_loss

Item = TypeVar("Item")

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
FIRST_ROWS = 8
"""Rows whose loss, before the first update, is compared with transformers' own."""


def wire(job: Json, emit: Emit) -> None:
    """Run the test and write `observation.json`. Raises what training raises."""
    began = time.monotonic()
    plain_job, job = job, _at_rate(job)
    attempt_dir = Path(job["attempt_dir"])
    data = trained_examples(job, "train")
    by_index = {example.index: example for example in data}
    rows = _choose(job, set(by_index), count=int(job.get("wire_rows") or 20))
    chosen = [by_index[row.index] for row in rows]
    verify_labels({}, chosen)
    with tempfile.TemporaryDirectory(dir=attempt_dir) as name:
        scratch = Path(name)
        base_dir = Path(job["frozen"]["base"]["dir"])
        if job.get("tiny"):
            base_dir = scratch / "base"
            seed = job["frozen"]["settings"]["train"]["seed"]
            write_tiny_base(Path(job["frozen"]["base"]["dir"]), base_dir, seed=seed)
        learner = load_learner(job, base_dir, emit)
        start_s = emit.t_s
        first_step = _first_step(learner, data)
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
        del base
        measured = {
            **timed,
            "first_step": first_step,
            "base_dir": str(base_dir),
            "anchor": _beside_anchor(plain_job, base_dir, scratch),
        }
        seen = _rehearsed(plain_job, data, measured, scratch, emit)
    observation = {
        "checks": seen,
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


def _evenly(rows: Sequence[Item], count: int) -> list[Item]:
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


def _first_step(learner: Learner, data: Sequence[Example]) -> Json:
    """The framework's loss on some rows before anything is learned."""
    rows = _evenly(data, FIRST_ROWS)
    loss = learner.try_out([rows], lambda _: None)[0].loss
    return {"rows": [row.index for row in rows], "loss": loss}


def _measure(job: Json, learner: Learner, data: Sequence[Example], emit: Emit) -> Json:
    """Time of a step at the run's batch size, and the memory that the longest rows take."""
    settings = job["frozen"]["settings"]["train"]
    order = Order(len(data), settings["batch_size"], settings["seed"])
    longest = _longest(data, order.batch_size)
    batches = [longest] + [
        [data[place] for place in order.batch(step)] for step in range(1, TIMED_STEPS + 1)
    ]
    tried = learner.try_out(
        batches,
        lambda step: emit.progress("measure", step, TIMED_STEPS + 1, rows=order.batch_size),
    )
    if "validation" in job["frozen"]["data"]:
        mean_loss(learner.base, _longest(trained_examples(job, "validation"), order.batch_size))
    peak = probe.peak_memory_gib()
    return {
        "step_s_median": round(statistics.median(step.seconds for step in tried[1:]), 4),
        "batch_size": order.batch_size,
        "peak_memory_gib": peak,
        "pack_tokens": learner.most_tokens(longest),
        "device_kind": learner.base.device.type,
        "longest": {
            "rows": len(longest),
            "tokens": max(len(row.input_ids) for row in longest),
            "peak_memory_gib": peak,
            "device_memory_gib": probe.device_memory_gib(),
        },
    }


def _longest(rows: Sequence[Example], count: int) -> list[Example]:
    return sorted(rows, key=lambda example: len(example.input_ids))[-count:]


def _beside_anchor(job: Json, base_dir: Path, scratch: Path) -> list[Json] | None:
    """The run's own first steps beside those that its anchor logged; None where it names none."""
    anchor: list[Json] = job.get("anchor_steps") or []
    if not anchor:
        return None
    frozen = {**job["frozen"], "base": {**job["frozen"]["base"], "dir": str(base_dir)}}
    folder = scratch / "anchor"
    own = {**job, "frozen": frozen, "kind": "train", "attempt_dir": str(folder)}
    train_until(len(anchor), own)
    steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {
            "step": theirs["step"],
            "row_ids": ours["row_ids"],
            "anchor_row_ids": theirs["row_ids"],
            "loss": ours["loss"],
            "anchor_loss": theirs["loss"],
        }
        for ours, theirs in zip((s for s in steps if "loss" in s), anchor, strict=False)
    ]


def _rehearsed(
    job: Json, data: Sequence[Example], measured: Json, scratch: Path, emit: Emit
) -> dict[str, Json]:
    """The observation of each check that looks at the machine."""
    frozen = job["frozen"]
    inputs = checks.CheckInputs(
        frozen=frozen,
        framework=frameworks.load(frozen["settings"]["train"]["framework"]),
        job=job,
        rehearsal=rehearse(job, data, scratch, emit),
        wire=measured,
    )
    names = checks.names("machine")
    found = {}
    for done, name in enumerate(names):
        emit.progress("look at the rehearsal", done, len(names))
        found[name] = checks.load(name).observe(inputs)
    return found


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
