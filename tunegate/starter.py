"""What one's own rows say about the task, how they are split, and a run file for them. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tunegate.types import Json, Row

MAX_LABELS = 300
"""More different answers than this are no labels."""
LABEL_CHARACTERS = 60
"""A longer answer is a text."""
ROWS_PER_LABEL = 3
"""Answers that do not come back this often on average are texts."""
ESCAPES = (
    *("other", "others", "none", "none_of_these", "none_of_the_above", "oos", "out_of_scope"),
    *("out_of_domain", "unknown", "misc", "miscellaneous", "na", "n/a"),
)
"""How classes that mean "none of these" are called."""


@dataclass
class Looked:
    """What was seen in the training rows, row by row."""

    rows: int = 0
    systems: Counter[str] = field(default_factory=Counter)
    without_system: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """Different answers, the first MAX_LABELS + 1 of them."""
    objects: int = 0
    """Answers that are one JSON object."""
    longest: int = 0
    keys: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Of JSON answers: key -> value as JSON -> rows; of each key the first MAX_LABELS + 1."""
    types: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    present: Counter[str] = field(default_factory=Counter)

    def add(self, row: Row) -> None:
        """Count a row, which has an answer."""
        answer = row.answer or ""
        self.rows += 1
        systems = [turn.content for turn in row.turns if turn.role == "system"]
        self.systems.update(systems[:1])
        self.without_system += not systems
        self.longest = max(self.longest, len(answer))
        _count(self.answers, answer)
        value = _object(answer)
        if value is not None:
            self.objects += 1
            for key, item in value.items():
                self.present[key] += 1
                self.types[key].add(_type(item))
                _count(self.keys[key], json.dumps(item, ensure_ascii=False))

    @property
    def answer(self) -> str:
        """json, label or text."""
        if self.objects == self.rows:
            return "json"
        return "label" if self._repeats(self.answers) and self.longest else "text"

    def _repeats(self, values: Counter[str]) -> bool:
        short = all(len(value) <= LABEL_CHARACTERS and "\n" not in value for value in values)
        total = sum(values.values())
        return 2 <= len(values) <= MAX_LABELS and short and total >= ROWS_PER_LABEL * len(values)

    def pointer(self) -> str | None:
        """Where the class stands in a JSON answer: the first text that every row has and repeats.

        None where no key is of that kind.
        """
        for key, values in self.keys.items():
            everywhere = self.present[key] == self.rows
            if everywhere and self.types[key] == {"string"} and self._repeats(values):
                return "/" + key.replace("~", "~0").replace("/", "~1")
        return None

    def labels(self) -> list[str]:
        """The classes in alphabetical order; none for texts."""
        if self.answer == "label":
            return sorted(self.answers)
        pointer = self.pointer() if self.answer == "json" else None
        if pointer is None:
            return []
        key = pointer[1:].replace("~1", "/").replace("~0", "~")
        return sorted(json.loads(value) for value in self.keys[key])

    def schema(self) -> Json:
        """JSON Schema that all answers fit: types, enums of what repeats, keys that all have."""
        properties: Json = {}
        for key, values in self.keys.items():
            types = sorted(self.types[key])
            if types == ["string"] and self._repeats(values):
                properties[key] = {"enum": sorted(json.loads(value) for value in values)}
            else:
                properties[key] = {"type": types[0] if len(types) == 1 else types}
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": properties,
            "required": [key for key in self.keys if self.present[key] == self.rows],
            "additionalProperties": False,
        }

    def system(self) -> str | None:
        """The system prompt that every row has; None where they differ or have none."""
        same = len(self.systems) == 1 and not self.without_system
        return next(iter(self.systems)) if same else None


def _count(values: Counter[str], value: str) -> None:
    if value in values or len(values) <= MAX_LABELS:
        values[value] += 1


def _object(text: str) -> Json | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _type(value: Any) -> str:
    kinds = {bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return kinds.get(type(value), "null" if value is None else "object")


def escape_of(labels: Sequence[str]) -> str | None:
    """The class whose name says that it means "none of these"; None where no or two names do."""
    found = [label for label in labels if re.sub(r"[\s-]+", "_", label.casefold()) in ESCAPES]
    return found[0] if len(found) == 1 else None


def prompt_for(answer: str, labels: Sequence[str], keys: Sequence[str]) -> str:
    """A system prompt to start from."""
    if answer == "label":
        return f"Answer with exactly one of these words, and nothing else: {', '.join(labels)}."
    if answer == "json":
        named = ", ".join(json.dumps(key, ensure_ascii=False) for key in keys)
        said = f"Answer with one line of JSON, an object with {named}, and nothing else."
        return said + (f" The class is one of: {', '.join(labels)}." if labels else "")
    return "You are a helpful assistant."


def sizes(rows: int, *, test_needed: int) -> tuple[int, int]:
    """Rows for test and for validation: a fifth and an eighth, test no fewer than are needed.

    At least half of the rows stay for training.
    """
    test = min(max(round(rows / 5), test_needed), round(0.35 * rows))
    return max(1, test), max(1, round(rows / 8))


def split(rows: Sequence[tuple[str, str | None]], *, parts: Mapping[str, int]) -> list[str]:
    """The part of each row: one of `parts` (name -> rows wanted), or train.

    `rows` are (text that keeps rows together, class). Rows of one text come into one part, each
    class gives its share to each part, and the order of the file decides nothing: the same rows
    are split the same way.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for number, (text, _) in enumerate(rows):
        members[text].append(number)
    by_class: dict[str, list[str]] = defaultdict(list)
    for text in members:
        by_class[rows[members[text][0]][1] or ""].append(text)
    out = ["train"] * len(rows)
    for texts in by_class.values():
        texts.sort(key=lambda text: hashlib.sha256(text.encode()).digest())
        left = [(text, len(members[text])) for text in texts]
        total = sum(count for _, count in left)
        for name, wanted in parts.items():
            quota = round(total * wanted / len(rows))
            # A class of few rows keeps most of them for training.
            quota = max(quota, 1) if total >= 2 * (len(parts) + 1) else quota
            while quota > 0 and len(left) > 1:
                text, count = left.pop()
                quota -= count
                for number in members[text]:
                    out[number] = name
    return out


def scalar(text: str) -> str:
    """A text as YAML: bare where nothing can misread it, else in double quotes."""
    words = ("true", "false", "null", "yes", "no", "on", "off")
    plain = re.fullmatch(r"[A-Za-z_][\w./-]*", text, flags=re.ASCII) is not None
    if plain and text.casefold() not in words:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def run_file(
    *,
    name: str,
    looked: Looked,
    answer: str,
    files: Mapping[str, str],
    base: tuple[str, str | None],
    escape: str | None,
) -> str:
    """The text of run.yaml. `files` has train, validation, test and, where there is one, system,
    schema.
    """
    model, revision = base
    pinned = f"\n  revision: {json.dumps(revision)}" if revision else ""
    system = f"  system: {scalar(files['system'])}" if "system" in files else "  system: null"
    return f"""\
# Written by `tunegate init`. Every line may be changed; docs/run-file.md explains all keys, and
# `tunegate research` says why each setting that is left out here gets the value that it gets.
name: {scalar(name)}

task:
{_task(looked, answer, escape, files)}
data:
  train: {scalar(files["train"])}
  validation: {scalar(files["validation"])}  # chooses the checkpoint and the base's best prompt
  may_leave: false  # true only where these rows may go to another company's machine

prompt:  # one text for training, evaluation and serving: use the same when you serve the model
{system}

base:
  model: {scalar(model)}{pinned}

train:
  epochs: 2  # passes over the training rows; learning rate, batch size and so on are chosen

eval:
  test: {scalar(files["test"])}  # read once, after everything is chosen
  # slices: {{hard: data/hard.jsonl}}  # further rows, scored apart
  # raw: {{prompts: prompts/candidates/}}  # other prompts to try with the untuned base model
  # teacher: {{predictions: data/teacher.jsonl}}  # answers of a larger model, to compare with

limits:
  money: 0 USD  # this machine costs nothing; above 0 a person has to release the run
  hours: 24
  minutes_at_risk: 10  # what a crash may cost; checkpoints follow from it
"""


def _task(looked: Looked, answer: str, escape: str | None, files: Mapping[str, str]) -> str:
    about = {
        "label": "the model answers with one of the labels; else: json, text",
        "json": "the model answers with one JSON value; else: label, text",
        "text": "the model answers with free text; else: label, json",
    }[answer]
    lines = [f"  answer: {answer}  # {about}"]
    if answer == "json":
        lines.append(f"  schema: {scalar(files['schema'])}  # what an answer may look like")
        pointer = looked.pointer()
        if pointer:
            lines.append(f"  class: {scalar(pointer)}  # results are given by this class")
    if answer == "label":
        lines += ["  labels:", *(f"    - {scalar(label)}" for label in looked.labels())]
    if escape is not None:
        lines.append(f'  escape: {scalar(escape)}  # the class that means "none of these"')
    return "\n".join(lines) + "\n"
