"""How an output is read: strictly, as a program would that consumes it, and tolerantly.

| answer | strict | tolerant |
|---|---|---|
| json | all of it is one JSON value that fits the schema | that, else the first that is complete |
| label | all of it is a label, as it is spelt | the label that is named first |
| text | as it is | whatever its case and spacing |

Tolerantly, an array is looked for where the schema takes arrays, else an object; where it takes
plain values, the text without fences and quotes may be one. Keys and labels are known whatever
their case, spaces, hyphens and underscores. A null under a key that may be left out, and whose
schema knows no null, is no key.

Space around the output is ignored in both. A JSON object that names one key twice, and numbers that
JSON does not have (NaN), are not strict: two readers would disagree about what they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tunegate.errors import DataError
from tunegate.metrics import _shape
from tunegate.types import Json

UNREADABLE = "(unreadable)"
"""Stands for the class of an output in which no answer can be read."""
OTHER = "(other)"
"""Stands for the class of an output that names a class which the task does not have."""

_SEPARATORS = re.compile(r"[\s\-_‐-―]+")
_FENCE = re.compile(r"^```\w*\s|```$")
_EDGES = " \t\r\n\"'`*.,;:!?()[]<>"


@dataclass(frozen=True)
class Reading:
    """What an output says, read in one way."""

    found: bool
    """A value could be read."""
    value: Any
    """The JSON value, the label or the text; None when nothing was found."""
    fits: bool | None
    """The value fits the schema (json) or is a known label; None where nothing says what fits."""
    label: str | None
    """The class that it says; None where it says none or the task has no classes."""


NOTHING = Reading(found=False, value=None, fits=False, label=None)


def read(output: str, task: Mapping[str, Any]) -> tuple[Reading, Reading]:
    """(strict, tolerant) reading of an output. Never raises because of the output."""
    return _read(output, json.dumps(task, sort_keys=True))


@lru_cache(maxsize=8192)  # every metric reads every output again
def _read(output: str, task_json: str) -> tuple[Reading, Reading]:
    task = json.loads(task_json)
    kind = task.get("answer", "text")
    if kind == "json":
        strict = _strict_json(output, task)
        return strict, _tolerant_json(output, task, strict)
    if kind == "label":
        return _strict_label(output, task), _tolerant_label(output, task)
    text = output.strip()
    return Reading(True, text, None, None), Reading(True, loose(text), None, None)


def gold_value(gold: Mapping[str, Any], task: Mapping[str, Any]) -> Any:
    """The intended value: parsed for json, stripped text otherwise.

    Raises:
        DataError: the row has no answer, or one that is not JSON although the task says so.
    """
    answer = gold.get("answer")
    if not isinstance(answer, str):
        raise DataError("the row has no answer to compare with", where=_place(gold))
    if task.get("answer") != "json":
        return answer.strip()
    try:
        return _loads(answer)
    except (ValueError, RecursionError) as exc:
        raise DataError(f"the intended answer is not JSON: {exc}", where=_place(gold)) from exc


def gold_class(gold: Mapping[str, Any], task: Mapping[str, Any]) -> str | None:
    """The intended class; None where the task has no classes."""
    if isinstance(gold.get("class"), str):
        return str(gold["class"])
    if task.get("answer") == "label":
        return str(gold_value(gold, task))
    if task.get("class") is None:
        return None
    label = _label_at(gold_value(gold, task), task)
    if label is None:
        raise DataError(f"the intended answer has nothing at {task['class']}", where=_place(gold))
    return label


def labels_of(task: Mapping[str, Any]) -> list[str]:
    """The classes that the task declares: `labels`, or the schema's enum at the class pointer."""
    if task.get("labels"):
        return [str(label) for label in task["labels"]]
    node: Any = task.get("schema") or {}
    if task.get("class") is None:
        return []
    for part in _parts(task["class"]):
        node = (node.get("properties") or {}).get(part) or {}
    return [_spell(value) for value in node.get("enum") or []]


def fold(text: str) -> str:
    """A label or key without case, spaces, hyphens and underscores."""
    return _SEPARATORS.sub("", text.casefold())


def loose(text: str) -> str:
    """A text without case, runs of space, and quotes or punctuation at its ends."""
    return " ".join(text.casefold().split()).strip(_EDGES)


def tally(scores: Sequence[Mapping[str, Any]]) -> Json:
    """Summary of scores whose `strict` and `tolerant` are true or false; None is not counted."""
    out: Json = {"n": 0}
    for reading in ("strict", "tolerant"):
        counted = [bool(score[reading]) for score in scores if score[reading] is not None]
        out["n"] = len(counted)
        out[reading] = {"right": sum(counted), "rate": share(sum(counted), len(counted))}
    out["gap"] = out["tolerant"]["rate"] - out["strict"]["rate"] if out["n"] else None
    return out


def share(part: int, whole: int) -> float | None:
    """The share `part / whole`, or None where there is nothing to share."""
    return part / whole if whole else None


def _place(gold: Mapping[str, Any]) -> str | None:
    return str(gold["id"]) if gold.get("id") is not None else None


def _strict_json(output: str, task: Json) -> Reading:
    try:
        value = _loads(output.strip())
    except (ValueError, RecursionError):
        return NOTHING
    fits = _fits(value, task)
    return Reading(True, value, fits, _label_at(value, task) if fits else None)


def _tolerant_json(output: str, task: Json, strict: Reading) -> Reading:
    schema = task.get("schema") or {}
    value = (
        strict.value
        if strict.found and strict.fits
        else _first_balanced(output, _shape.openings(schema))
    )
    if value is None:
        value = _plain_value(output, task)
    if value is None and not strict.found:
        return NOTHING
    value = _respelt(strict.value if value is None else value, task)
    return Reading(True, value, _fits(value, task), _label_at(value, task))


def _respelt(value: Any, task: Json) -> Any:
    schema = task.get("schema") or {}
    labels = _labels_by_fold(labels_of(task))
    return _canonical(value, schema, labels, _parts(task.get("class")), root=schema)


def _plain_value(output: str, task: Json) -> Any | None:
    """A text, number, true or false that fits a schema of such values; None where there is none."""
    if not _shape.takes_plain(task.get("schema") or {}):
        return None
    text = _FENCE.sub("", output.strip()).strip(_EDGES)
    for candidate in (text, text.casefold()):
        try:
            value = _loads(candidate)
        except (ValueError, RecursionError):
            value = candidate
        for said in (value, candidate):
            if _fits(spelt := _respelt(said, task), task):
                return spelt
    return None


def _strict_label(output: str, task: Json) -> Reading:
    text, labels = output.strip(), labels_of(task)
    if not text:
        return NOTHING
    known = text in labels if labels else None
    return Reading(True, text, known, text)


def _tolerant_label(output: str, task: Json) -> Reading:
    labels, text = labels_of(task), output.strip()
    bare = output.strip(_EDGES)
    # Before anything is folded: labels that differ only in what folding takes away.
    for exact in (text, bare):
        if exact in labels:
            return Reading(True, exact, True, exact)
    by_fold = _labels_by_fold(labels)
    whole = by_fold.get(fold(bare))
    if whole is not None:
        return Reading(True, whole, True, whole)
    named = [
        (match.start(), -len(match[0]), match[0] != label, label, match[0])
        for label in labels
        if (match := _named(label, output))
    ]
    if named:
        _, _, respelt, label, said = min(named)
        if respelt and fold(label) not in by_fold:  # as near to another label: not guessed
            return Reading(True, said, False, said)
        return Reading(True, label, True, label)
    if not bare:
        return NOTHING
    return Reading(True, bare, False if labels else None, bare)


def _named(label: str, output: str) -> re.Match[str] | None:
    words = [re.escape(word) for word in _SEPARATORS.split(label) if word]
    pattern = r"(?<!\w)" + r"[\s\-_]*".join(words) + r"(?!\w)"
    return re.search(pattern, output, re.IGNORECASE)


def _first_balanced(output: str, openings: str) -> Any | None:
    """The first JSON value with one of these openings that is complete, wherever it starts."""
    decoder = json.JSONDecoder()
    for match in re.finditer(f"[{re.escape(openings)}]", output):
        try:
            return decoder.raw_decode(output, match.start())[0]
        except (ValueError, RecursionError):
            continue
    return None


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return out


def _fits(value: Any, task: Json) -> bool:
    schema = task.get("schema")
    if schema is None:
        labels = labels_of(task)
        return not labels or _label_at(value, task) in labels
    from referencing.exceptions import Unresolvable

    try:
        return bool(_validator(json.dumps(schema, sort_keys=True)).is_valid(value))
    except RecursionError:  # an output nested hundreds deep
        return False
    except Unresolvable as exc:
        raise DataError(f"the answer schema refers to what it does not hold: {exc}") from exc


@lru_cache(maxsize=16)
def _validator(schema_json: str) -> Any:
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # An empty registry: a reference to another document is an error, never a download.
    registry: Registry[Any] = Registry()
    return Draft202012Validator(json.loads(schema_json), registry=registry)


def _parts(pointer: str | None) -> list[str]:
    """RFC 6901."""
    if not pointer:
        return []
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.lstrip("/").split("/")]


def _label_at(value: Any, task: Mapping[str, Any]) -> str | None:
    if task.get("class") is None:
        return None
    for part in _parts(task["class"]):
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return None if isinstance(value, dict | list) or value is None else _spell(value)


def _spell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _labels_by_fold(labels: Iterable[str]) -> dict[str, str]:
    """Folded form to label, without the forms that two labels share."""
    out: dict[str, str] = {}
    shared: set[str] = set()
    for label in dict.fromkeys(labels):
        if fold(label) in out:
            shared.add(fold(label))
        out[fold(label)] = label
    return {form: label for form, label in out.items() if form not in shared}


def _canonical(
    value: Any, schema: Any, labels: Mapping[str, str], pointer: list[str], *, root: Json
) -> Any:
    """The value with keys and enumerated texts spelt as the schema and the task spell them."""
    schema = _shape.resolved(schema, root)
    if isinstance(value, dict):
        properties = schema.get("properties") or {}
        known = _labels_by_fold([*properties, *pointer[:1]])
        out: Json = {}
        # A key that is spelt right goes before one that is only alike.
        for key in sorted(value, key=lambda key: key not in properties):
            name = key if key in properties else str(known.get(fold(key), key))
            if value[key] is None and _shape.means_absent(schema, name, root):
                continue
            inner = pointer[1:] if pointer and name == pointer[0] else []
            is_class = bool(pointer) and name == pointer[0] and len(pointer) == 1
            out.setdefault(
                name,
                _as_label(value[key], labels)
                if is_class and labels
                else _canonical(value[key], properties.get(name), labels, inner, root=root),
            )
        return out
    if isinstance(value, list):
        return [_canonical(item, schema.get("items"), labels, [], root=root) for item in value]
    if isinstance(value, str):
        choices = [item for item in schema.get("enum") or [] if isinstance(item, str)]
        return _as_label(value, _labels_by_fold(choices))
    return value


def _as_label(value: Any, labels: Mapping[str, str]) -> Any:
    if not isinstance(value, str) or value in labels.values():
        return value
    return labels.get(fold(value), value)
