"""Answers of a task: what they must look like, and how often each label occurs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from tunegate.types import Json

MAX_KNOWN = 50_000
"""Answers whose verdict is remembered: labels repeat, free text does not."""

MAX_NAMES = 12
"""Declared labels that a message lists."""


class Targets:
    """Looks at each answer of one split against the task."""

    def __init__(self, task: Json) -> None:
        self.kind: str = task["answer"]
        self.pointer: str | None = task.get("class")
        self.declared: list[str] | None = task.get("labels")
        self.labels: Counter[str] = Counter()
        self.key_sets: Counter[str] = Counter()
        self.styles: Counter[str] = Counter()
        self.escaped = self.raw_letters = self.answers = 0
        self._validate = _validator(task.get("schema"))
        self._known: dict[str, tuple[str | None, str | None]] = {}

    def add(self, answer: str) -> tuple[str | None, str | None]:
        """Count one answer. Returns what is wrong with it and its label, each None where none."""
        self.answers += 1
        known = self._known.get(answer)
        if known is None:
            known = self._judge(answer)
            if len(self._known) < MAX_KNOWN:
                self._known[answer] = known
        elif self.kind == "json" and known[0] is None:
            self._style(answer, json.loads(answer))
        problem, label = known
        if label is not None:
            self.labels[label] += 1
        return problem, label

    def _judge(self, answer: str) -> tuple[str | None, str | None]:
        if self.kind == "label":
            if answer in (self.declared or ()):
                return None, answer
            return f"{answer!r} is no declared label{self._near(answer)}", None
        if self.kind != "json":
            return None, None
        try:
            value = json.loads(answer, object_pairs_hook=_pairs, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            return f"the answer is not JSON ({error}): {answer[:80]!r}", None
        self._style(answer, value)
        problem = self._validate(value)
        label = _at(value, self.pointer)
        if label is None and self.pointer is not None:
            return problem or f"the answer has no class at {self.pointer}: {answer[:80]!r}", None
        if label is not None and self.declared is not None and label not in self.declared:
            return f"{label!r} is no declared label{self._near(label)}", None
        return problem, None if problem else label

    def canonical(self, answer: str) -> str:
        """The answer as it is compared with others: JSON whatever its layout, text by its words."""
        if self.kind == "json":
            try:
                return json.dumps(json.loads(answer), sort_keys=True)
            except (ValueError, RecursionError):
                pass  # told as a wrong answer; here it is compared as text
        return " ".join(answer.split())

    def _near(self, label: str) -> str:
        """What was meant: a label that differs only by case or spacing, else those declared."""
        for declared in self.declared or ():
            if _folded(declared) == _folded(label):
                return f"; {declared!r} is"
        names = self.declared or []
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return f"; declared: {', '.join(map(repr, names[:MAX_NAMES]))}{more}" if names else ""

    def _style(self, answer: str, value: Any) -> None:
        if isinstance(value, dict):
            self.key_sets[", ".join(sorted(value, key=lambda key: (key.casefold(), key)))] += 1
        self.escaped += "\\u" in answer
        self.raw_letters += not answer.isascii()
        for name, style in _STYLES.items():
            if (
                style(value) == answer.replace("\\/", "/")
                or style(value, ascii_only=True) == answer
            ):
                self.styles[name] += 1
                return
        self.styles["other"] += 1

    def to_json(self) -> Json:
        return {
            "labels": dict(self.labels.most_common()),
            "key_sets": dict(self.key_sets.most_common(10)),
            "styles": dict(self.styles),
            "escaped": self.escaped,
            "raw_letters": self.raw_letters,
            "answers": self.answers,
        }


def _written(separators: tuple[str, str] | None, indent: int | None) -> Callable[..., str]:
    def write(value: Any, *, ascii_only: bool = False) -> str:
        return json.dumps(value, ensure_ascii=ascii_only, separators=separators, indent=indent)

    return write


_STYLES = {
    "spaced": _written(None, None),
    "compact": _written((",", ":"), None),
    "indented by 2": _written(None, 2),
    "indented by 4": _written(None, 4),
}
"""How JSON is laid out; two layouts in one file teach the model both."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return dict(pairs)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _at(value: Any, pointer: str | None) -> str | None:
    """The class at a JSON pointer, spelt as metrics spell it; None where there is none."""
    if pointer is None:
        return None
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return None if value is None or isinstance(value, dict | list) else _spell(value)


def _spell(value: Any) -> str:
    """A class as text: what is no text as JSON writes it (true, 1)."""
    return value if isinstance(value, str) else json.dumps(value)


def _folded(text: str) -> str:
    return "".join(character for character in text.casefold() if character.isalnum())


def _validator(schema: Json | None) -> Callable[[Any], str | None]:
    """What is wrong with a value by a JSON Schema of 2020-12; None where nothing is."""
    if schema is None:
        return lambda value: None
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(schema)

    def problem(value: Any) -> str | None:
        error = next(iter(validator.iter_errors(value)), None)
        if error is None:
            return None
        place = "/" + "/".join(map(str, error.absolute_path))
        return f"the answer does not fit the schema at {place}: {error.message[:160]}"

    return problem
