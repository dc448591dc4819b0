"""Whole runs on families and data shapes that no example has: real tokenizers and templates."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from families import make_family
from shell import Shell, read
from toys import write_rows

pytest.importorskip("torch", reason="torch is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SYSTEM = "You help the customers of a shop for outdoor goods."
GOODS = ("tent", "stove", "rope", "lamp", "boots", "map")
ENDS = ("today", "for Ada", "in Oslo", "before May", "again", "by post", "at noon", "in red")
Rows = Callable[[int, str], list[dict[str, Any]]]
SPLITS = {"train": 24, "validation": 20, "test": 12}


def asked(number: int, split: str) -> tuple[str, str]:
    """What is wanted, and a sentence that asks for it; no two splits share a sentence."""
    good = GOODS[number % len(GOODS)]
    place = list(SPLITS).index(split) * 1000 + number
    return good, f"Do you have a {good} {ENDS[number % len(ENDS)]}, as in my note {place}?"


def conversations(count: int, split: str) -> list[dict[str, Any]]:
    """Three user turns and JSON answers; the earlier answers belong to the prompt."""
    out = []
    for number in range(count):
        good, text = asked(number, split)
        turns = [
            ("user", f"Hello {split} {number}"), ("assistant", json.dumps({"hello": "there"})),
            ("user", text), ("assistant", json.dumps({"good": good})),
        ]  # fmt: skip
        messages: list[dict[str, Any]] = [{"role": r, "content": c} for r, c in turns]
        messages[1]["weight"] = 0
        out.append({"id": f"{split}-{number}", "messages": messages})
    return out


def instructions(count: int, split: str) -> list[dict[str, Any]]:
    """Alpaca rows with answers in words."""
    out = []
    for number in range(count):
        good, text = asked(number, split)
        row = {"instruction": "Answer the customer.", "input": text, "output": f"A {good}: yes!"}
        out.append({"id": f"{split}-{number}", **row})
    return out


def labelled(count: int, split: str) -> list[dict[str, Any]]:
    """Prompt and label."""
    out = []
    for number in range(count):
        good, text = asked(number, split)
        out.append({"id": f"{split}-{number}", "prompt": text, "completion": good})
    return out


def put_run(folder: Path, base: Path, rows: Rows, task: dict[str, Any], **changes: Any) -> Path:
    """A run folder; `changes` are merged into the run file."""
    for split, count in SPLITS.items():
        write_rows(folder / f"{split}.jsonl", rows(count, split))
    (folder / "system.txt").write_text(SYSTEM + "\n")
    schema = {"type": "object", "properties": {"good": {"enum": list(GOODS)}},
              "required": ["good"], "additionalProperties": False}  # fmt: skip
    (folder / "schema.json").write_text(json.dumps(schema))
    answer = {"answer": "a model of random weights", "source": "this test"}
    spec: dict[str, Any] = {
        "name": base.name,
        "task": task,
        "data": {"train": "train.jsonl", "validation": "validation.jsonl"},
        "prompt": {"system": "system.txt"},
        "base": {"model": str(base)},
        "train": {
            "epochs": 3,
            "learning_rate": 4e-3,
            "precision": "fp32",
            "batch_size": 3,
            "eval_every_steps": 24,
        },
        "eval": {"test": "test.jsonl", "raw": {"shots": [0]}},
        "research": {"answers": {"train.learning_rate": answer, "eval.test.rows": answer}},
    }
    for key, value in changes.items():
        spec[key] = {**spec.get(key, {}), **value} if isinstance(value, dict) else value
    (folder / "run.yaml").write_text(json.dumps(spec, indent=1))
    return folder


TASKS: dict[str, tuple[Rows, dict[str, Any]]] = {
    "qwen3": (conversations, {"answer": "json", "schema": "schema.json", "class": "/good"}),
    "gemma3": (instructions, {"answer": "text"}),
    "llama3": (labelled, {"answer": "label", "labels": list(GOODS)}),
}
ENDINGS = {"qwen3": "<|im_end|>", "gemma3": "<end_of_turn>", "llama3": "<|eot_id|>"}
UNTHINKING = {"prompt": {"chat_template_kwargs": {"enable_thinking": False}}}


@pytest.mark.parametrize("name", TASKS)
def test_from_file_to_report(name: str, tmp_path: Path) -> None:
    base = make_family(name, tmp_path / name)
    rows, task = TASKS[name]
    shell, folder = Shell(tmp_path), tmp_path / "run"
    put_run(folder, base, rows, task)
    if name == "qwen3":
        # Its template puts an empty think block into training and not into the prompt.
        refused = shell.run("go", folder, code=3)
        assert "enable_thinking: false" in refused["error"]["hint"]
        assert not (folder / "attempts").exists()
        put_run(folder, base, rows, task, **UNTHINKING)
    shell.run("go", folder, seconds=900)
    wire = read(folder, "evidence/wire.json")["observation"]
    assert wire["exact"] == wire["stopped"] == 20
    mask = read(folder, "evidence/mask_exact.json")["observation"]
    assert all(s["supervised_text"].endswith(ENDINGS[name]) for s in mask["samples"])
    receipt = read(folder, "record.json")["training"]["receipt"]
    assert receipt["steps"] == 24 and receipt["adapter"]["changed"]
    answered = [json.loads(line) for line in (folder / "eval/tuned.jsonl").read_text().splitlines()]
    assert len(answered) == SPLITS["test"]
    assert receipt["effect"]["changed"] > 0
    assert "<html" in (folder / "report.html").read_text()
    log = (folder / "attempts/1/log").read_text()
    assert ("padded" in log) is (name == "gemma3"), "the plain path tells its reason"
