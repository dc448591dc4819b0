"""Stand-in trainers that prepare rows the ways real ones do, right and wrong, and runs to check.

A `Trainer` is what the checks take for a framework: an object with `batches(job)`. It prepares each
row by one of the functions below, each of which is a way in which a real trainer builds its labels.

    run(folder, train=[...], trainer=Trainer(masked_by_prompt))   inputs of a check, on real files
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import toys
from tunegate.checks import CheckInputs, load
from tunegate.types import IGNORED, Example, Json, Row, Verdict
from tunegate.worker.rows import columns_of, read_rows
from tunegate.worker.template import Template, training_template
from tunegate.worker.tokens import Tokenizer, load_tokenizer, stop_ids

Prepare = Callable[[Row, Tokenizer, Template], Example]


@dataclass
class Trainer:
    """Prepares each row with `prepare`, cuts or drops long ones, pads, and hands out batches."""

    prepare: Prepare
    max_length: int | None = None
    drop_long: bool = False
    order: Callable[[list[Example]], list[Example]] = field(default=list)
    """What the trainer does with the whole list before it batches it."""
    collate: Callable[[Sequence[Example], Tokenizer], list[Example]] | None = None

    def batches(self, job: Json) -> Iterator[list[Example]]:
        frozen = job["frozen"]
        tokenizer = load_tokenizer(Path(frozen["base"]["dir"]))
        template = training_template(frozen, special_tokens=tokenizer.special_tokens)
        path = Path(job["data_dir"]) / frozen["data"]["train"]["path"]
        columns = columns_of(frozen, "train")
        rows = read_rows(path, system=frozen["prompt"]["system"], columns=columns)
        examples = self.order([self._fit(self.prepare(row, tokenizer, template)) for row in rows])
        for start in range(0, len(examples), 4):
            batch = examples[start : start + 4]
            yield self.collate(batch, tokenizer) if self.collate else batch

    def _fit(self, example: Example) -> Example:
        size = len(example.input_ids)
        if self.max_length is None or size <= self.max_length:
            return example
        if self.drop_long:
            reason = f"longer than max_length, {self.max_length} tokens"
            return Example(example.index, example.input_ids, example.labels, dropped=reason)
        return Example(
            example.index,
            example.input_ids[: self.max_length],
            example.labels[: self.max_length],
            cut=size - self.max_length,
        )


def _texts(row: Row, template: Template) -> tuple[str, str]:
    """The prompt and the whole text of a row that ends with its answer."""
    tools = row.tools
    prompt = template.render(row.prompt, add_generation_prompt=True, tools=tools)
    return prompt, template.render(row.turns, add_generation_prompt=False, tools=tools)


def _example(row: Row, ids: list[int], start: int, end: int) -> Example:
    """Labels on positions [start, end)."""
    labels = [token if start <= n < end else IGNORED for n, token in enumerate(ids)]
    return Example(row.index, ids, labels)


def masked_by_prompt(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Right: prompt and answer encoded apart, loss from the prompt's length to the turn's end."""
    prompt, whole = _texts(row, template)
    head, tail = tokenizer.encode(prompt), tokenizer.encode(whole[len(prompt) :].rstrip("\n"))
    newline = tokenizer.encode("\n") if whole.endswith("\n") else []
    ids = head + tail + newline
    return _example(row, ids, len(head), len(head) + len(tail))


def with_newline_after_end(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Right, as LLaMA-Factory does it: the newline after the turn's end is trained as well."""
    example = masked_by_prompt(row, tokenizer, template)
    ids = example.input_ids
    start = next(n for n, label in enumerate(example.labels) if label != IGNORED)
    return _example(row, ids, start, len(ids))


def raw_text(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """The incident: prompt, blank line, answer as one text, all of it trained."""
    text = row.text if row.text is not None else "\n\n".join(turn.content for turn in row.turns)
    ids = [*tokenizer.encode_raw(text), tokenizer.eos_id or 0]
    return Example(row.index, ids, list(ids))


def unmasked_chat(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """The chat text, all of it trained: what TRL does with `messages` unless told otherwise."""
    ids = tokenizer.encode(_texts(row, template)[1])
    return Example(row.index, ids, list(ids))


def marker_not_found(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Loss after a response marker that tokenises differently in the text, so it is never found."""
    ids = tokenizer.encode(_texts(row, template)[1])
    marker = tokenizer.encode("### Answer: ")
    at = next((n for n in range(len(ids)) if ids[n : n + len(marker)] == marker), None)
    start = len(ids) if at is None else at + len(marker)
    return _example(row, ids, start, len(ids))


def end_masked_as_padding(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Padding masked by id where pad and end are the same token: the end loses its label."""
    example = masked_by_prompt(row, tokenizer, template)
    labels = [IGNORED if label == tokenizer.pad_id else label for label in example.labels]
    return Example(row.index, example.input_ids, labels)


def prompt_with_extra_end(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """The prompt's length is taken from an encoding that ends with an end token of its own."""
    prompt, whole = _texts(row, template)
    ids = tokenizer.encode(whole)
    mask = [*tokenizer.encode(prompt), tokenizer.eos_id]
    return _example(row, ids, len(mask), len(ids) - 1)


def header_in_loss(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Loss from the end of the question on: the answer's header, three tokens, is trained."""
    prompt, whole = _texts(row, template)
    ids = tokenizer.encode(whole)
    header = len(tokenizer.encode(prompt)) - len(
        tokenizer.encode(template.render(row.prompt, add_generation_prompt=False))
    )
    return _example(row, ids, len(tokenizer.encode(prompt)) - header, len(ids) - 1)


def first_copy_of_answer(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """The answer is looked for in the text; its first copy may stand in the question."""
    _, whole = _texts(row, template)
    ids = tokenizer.encode(whole)
    answer = [*tokenizer.encode(row.answer or ""), tokenizer.eos_id]
    at = next(n for n in range(len(ids)) if ids[n : n + len(answer)] == answer)
    return _example(row, ids, at, at + len(answer))


def labels_shifted(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Labels moved by one while preparing, though the trainer moves them again."""
    example = masked_by_prompt(row, tokenizer, template)
    return Example(row.index, example.input_ids, [*example.labels[1:], IGNORED])


def two_begins(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """The template prints the begin-of-text token and the tokenizer adds another."""
    example = masked_by_prompt(row, tokenizer, template)
    bos = tokenizer.bos_id
    assert bos is not None
    return Example(row.index, [bos, *example.input_ids], [IGNORED, *example.labels])


def every_answer(row: Row, tokenizer: Tokenizer, template: Template) -> Example:
    """Right: every assistant turn and its end is trained, and nothing between."""
    ids: list[int] = []
    labels: list[int] = []
    done = ""
    for position, turn in enumerate(row.turns):
        if turn.role != "assistant":
            continue
        tools, turns = row.tools, row.turns
        prompt = template.render(turns[:position], add_generation_prompt=True, tools=tools)
        whole = template.render(turns[: position + 1], add_generation_prompt=False, tools=tools)
        before = tokenizer.encode(prompt[len(done) :])
        answer = tokenizer.encode(whole[len(prompt) :].rstrip("\n"))
        rest = tokenizer.encode("\n") if whole.endswith("\n") else []
        ids += before + answer + rest
        labels += [IGNORED] * len(before) + answer + [IGNORED] * len(rest)
        done = whole
    return Example(row.index, ids, labels)


def padded(batch: Sequence[Example], tokenizer: Tokenizer) -> list[Example]:
    """Padded to the batch's longest; padding is masked by position, as TRL does it."""
    longest = max(len(example.input_ids) for example in batch)
    return [
        Example(
            example.index,
            example.input_ids + [tokenizer.pad_id or 0] * (longest - len(example.input_ids)),
            example.labels + [IGNORED] * (longest - len(example.labels)),
        )
        for example in batch
    ]


QUESTIONS = (
    ("Where is my order? It was due on Monday.", "order_status"),
    ("I want to send the boots back.", "return_item"),
    ("Do you sell tents for four?", "none_of_these"),
    ("The jacket came with a torn sleeve.", "return_item"),
    ("My parcel has not moved for six days.", "order_status"),
    ("Can you sing?", "none_of_these"),
)

SYSTEM = "Reply with one line of JSON and nothing else."

SCHEMA: Json = {
    "type": "object",
    "properties": {"intent": {"enum": ["order_status", "return_item", "none_of_these"]}},
    "required": ["intent"],
    "additionalProperties": False,
}


def triage(system: str | None = None) -> list[Json]:
    """Six rows of a small task with JSON answers."""
    return [
        toys.chat(question, f'{{"intent": "{label}"}}', system=system)
        for question, label in QUESTIONS
    ]


def run(
    folder: Path,
    *,
    trainer: Any = None,
    train: Sequence[Json] | None = None,
    splits: dict[str, Sequence[Json]] | None = None,
    template: str = toys.CHATML,
    training_source: str | None = None,
    kwargs: Json | None = None,
    system: str | None = SYSTEM,
    loss: str = "answer",
    task: Json | None = None,
    group: str | None = None,
    columns: dict[str, str] | None = None,
    may_leave: bool = False,
    stops: Sequence[str] | None = None,
    **tokenizer: Any,
) -> CheckInputs:
    """A run's inputs on real files: data, tokenizer, template, prompt, and a trainer."""
    base = toys.make_tokenizer_dir(folder / "base", template=template, **tokenizer)
    rows = {"train": train if train is not None else triage(), **(splits or {})}
    data: Json = {}
    for name, items in rows.items():
        path = folder / "data" / f"{name.replace(':', '-')}.jsonl"
        toys.write_rows(path, items)
        raw = path.read_bytes()
        data[name] = {
            "path": f"data/{path.name}",
            "sha256": hashlib.sha256(raw).hexdigest(),
            "bytes": len(raw),
            "rows": len(items),
        }
    known = load_tokenizer(base)
    ids = stop_ids(base) if stops is None else {known.token_id(text) for text in stops}
    settings = {
        "task": task or {"answer": "text", "schema": None, "class": None, "labels": None},
        "train": {"framework": "stand-in", "loss": loss, "max_length": None},
        "data": {"group": group, "columns": columns, "may_leave": may_leave},
    }
    frozen: Json = {
        "name": "stand-in",
        "folder": str(folder),
        "settings": settings,
        "data": data,
        "prompt": {"system": system, "sha256": "0" * 64},
        "base": {"model": "stand-in", "dir": str(base), "vocab": known.vocab_size},
        "tokenizer": {"stop_ids": sorted(ids), "eos_id": known.eos_id, "pad_id": known.pad_id},
        "template": {"source": template, "training_source": training_source, "kwargs": kwargs},
    }
    job = {"format": 1, "kind": "train", "frozen": frozen, "data_dir": str(folder)}
    return CheckInputs(frozen, trainer or Trainer(masked_by_prompt), job)


def verdict(name: str, inputs: CheckInputs) -> Verdict:
    """Observe, store as JSON and read back as evidence is, and judge."""
    import json

    check = load(name)
    observation = json.loads(json.dumps(check.observe(inputs)))
    return check.judge(observation, inputs.frozen)


JSON_TASK: Json = {
    "answer": "json",
    "schema": SCHEMA,
    "class": "/intent",
    "escape": "none_of_these",
    "labels": ["order_status", "return_item", "none_of_these"],
}
"""The task of `triage()`."""
