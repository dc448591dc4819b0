"""`tunegate schema`: a valid JSON Schema that accepts and refuses what the reader does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML
from shell import Shell

from tunegate.errors import SpecError
from tunegate.spec import read_spec
from tunegate.specmodel import json_schema

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*/run*.yaml"))


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def good() -> dict[str, Any]:
    return {
        "name": "toy",
        "task": {"answer": "label", "labels": ["a", "b"]},
        "data": {"train": "rows.jsonl", "validation": "rows.jsonl"},
        "base": {"model": "base"},
        "eval": {"test": "rows.jsonl"},
    }


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_examples_are_valid(validator: Draft202012Validator, example: Path) -> None:
    assert [error.message for error in validator.iter_errors(load(example))] == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize(
    ("change", "accepted"),
    [
        ({}, True),
        ({"limits": {"money": "5 USD"}}, True),
        ({"limits": {"money": "5"}}, False),
        ({"limits": {"money": "five USD"}}, False),
        ({"limits": {"hours": 0}}, False),
        ({"trian": {}}, False),
        ({"name": "two words"}, False),
        ({"task": {"answer": "json"}}, False),
        ({"task": {"answer": "json", "schema": None}}, False),
        ({"task": {"answer": "json", "schema": "schema.json"}}, True),
        ({"task": {"answer": "label"}}, False),
        ({"task": {"answer": "label", "labels": ["a"]}}, False),
        ({"task": {"answer": "label", "labels": ["a", "a"]}}, False),
        ({"task": {"answer": "text"}}, True),
        ({"task": {"answer": "text", "class": "intent"}}, False),
        ({"train": {"epochs": 101}}, False),
        ({"train": {"epochs": "2"}}, False),
        ({"train": {"schedule": "cosin"}}, False),
        ({"train": {"lora": {"targets": []}}}, False),
        ({"eval": {"test": "rows.jsonl", "slices": {"test": "rows.jsonl"}}}, False),
        ({"eval": {"test": "rows.jsonl", "slices": {"a b": "rows.jsonl"}}}, False),
        ({"eval": {"test": "rows.jsonl", "slices": {"hard": "rows.jsonl"}}}, True),
        ({"eval": {"test": "rows.jsonl", "raw": {"shots": [65]}}}, False),
        ({"base": {"model": "base", "revision": 12}}, False),
    ],
)
def test_it_agrees_with_the_reader(
    validator: Draft202012Validator, tmp_path: Path, change: dict[str, Any], accepted: bool
) -> None:
    for name in ("rows.jsonl", "schema.json"):
        (tmp_path / name).write_text("{}\n")
    content = {**good(), **change}
    file = tmp_path / "run.yaml"
    file.write_text(json.dumps(content))
    assert validator.is_valid(content) is accepted
    if accepted:
        read_spec(file)
    else:
        with pytest.raises(SpecError):
            read_spec(file)


def test_every_key_has_a_description(validator: Draft202012Validator) -> None:
    root: dict[str, Any] = validator.schema
    nodes = [root, *root["$defs"].values()]
    silent = [
        key for node in nodes for key, v in node["properties"].items() if not v["description"]
    ]
    assert silent == []


def test_it_is_printed_or_written(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    assert json.loads(shell.text("schema").stdout) == json_schema()
    target = tmp_path / "run.schema.json"
    body = shell.run("schema", target)
    assert json.loads(target.read_text()) == json_schema()
    assert body["data"]["lines"] == [f"# yaml-language-server: $schema={target}"]
    named = Path(shell.run("schema")["data"]["file"])
    assert named.is_relative_to(tmp_path / "cache") and json.loads(named.read_text())
