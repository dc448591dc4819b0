"""The embedded task keeps what its data card says: counts, shape, spread, and splits apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tunegate.metrics import rule

SPLITS = ("train", "validation", "test", "adversarial")


@pytest.fixture(scope="module")
def folder(repository: Path) -> Path:
    return repository / "examples" / "triage"


def read(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n")
    assert "\r" not in text
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    return {name: read(folder / "data" / f"{name}.jsonl") for name in (*SPLITS, "general")}


@pytest.fixture(scope="module")
def labels(folder: Path) -> list[str]:
    schema = json.loads((folder / "answer.schema.json").read_text(encoding="utf-8"))
    found: list[str] = schema["properties"]["intent"]["enum"]
    return found


def intent(row: dict[str, Any]) -> str:
    return str(json.loads(row["completion"])["intent"])


def plain(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


def test_the_task_is_as_large_as_it_must_be(
    rows: dict[str, list[dict[str, Any]]], labels: list[str]
) -> None:
    sizes = {name: len(found) for name, found in rows.items()}
    assert sizes == {
        "train": 408,
        "validation": 100,
        "test": 240,
        "adversarial": 66,
        "general": 84,
    }
    assert len(labels) == 13
    for name in SPLITS:
        counts = Counter(intent(row) for row in rows[name])
        assert counts.keys() == set(labels)
        assert counts["none_of_these"] >= 0.15 * sizes[name]


def test_the_card_counts_what_is_there(
    folder: Path, rows: dict[str, list[dict[str, Any]]], labels: list[str]
) -> None:
    card = (folder / "README.md").read_text(encoding="utf-8")
    for name, found in rows.items():
        assert f"| `data/{name}.jsonl` | {len(found)} |" in card
    for label in labels:
        counts = [sum(intent(row) == label for row in rows[name]) for name in SPLITS]
        assert f"| `{label}` | " + " | ".join(map(str, counts)) + " |" in card
    kinds = Counter(row["kind"] for row in rows["adversarial"])
    assert kinds == {
        "injected_instruction": 14,
        "two_intents": 12,
        "label_in_text": 12,
        "other_language": 14,
        "nearly_empty": 14,
    }


def test_ids_are_unique_and_the_teacher_answered_each(
    folder: Path, rows: dict[str, list[dict[str, Any]]]
) -> None:
    ids = [row["id"] for found in rows.values() for row in found]
    assert len(set(ids)) == len(ids)
    judged = [row["id"] for name in ("test", "adversarial", "general") for row in rows[name]]
    teacher = read(folder / "data" / "teacher.jsonl")
    assert sorted(row["id"] for row in teacher) == sorted(judged)
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert f"| `data/teacher.jsonl` | {len(teacher)} |" in card


def test_general_rows_can_be_passed_and_failed(
    folder: Path, rows: dict[str, list[dict[str, Any]]], labels: list[str]
) -> None:
    outputs = {row["id"]: row["output"] for row in read(folder / "data" / "teacher.jsonl")}
    for row in rows["general"]:
        assert rule.score(outputs[row["id"]], row, {})["strict"], row["id"]
        # What a model says that answers everything with the task's labels by now.
        for label in labels:
            answer = json.dumps({"intent": label})
            assert not rule.score(answer, row, {})["strict"], (row["id"], label)


def test_messages_are_of_every_length_and_name_no_label(
    rows: dict[str, list[dict[str, Any]]], labels: list[str]
) -> None:
    for name in ("train", "validation", "test"):
        lengths = [len(row["prompt"].split()) for row in rows[name]]
        assert 3 <= min(lengths) <= max(lengths) <= 80
        assert sum(length < 8 for length in lengths) >= 0.12 * len(lengths)
        assert sum(length > 25 for length in lengths) >= 0.25 * len(lengths)
        for row in rows[name]:
            assert not any(label in row["prompt"] for label in labels), row["id"]


def test_splits_share_no_text_and_nothing_close(rows: dict[str, list[dict[str, Any]]]) -> None:
    """No two messages of different splits have half of their four-letter pieces in common.

    Single words of the adversarial slice are left out: `card declined` is part of many messages.
    """
    pieces = {
        (name, row["id"]): {text[at : at + 4] for at in range(max(1, len(text) - 3))}
        for name in SPLITS
        for row in rows[name]
        if row.get("kind") != "nearly_empty" and (text := plain(row["prompt"]))
    }
    close = [
        (one, other)
        for one, here in pieces.items()
        for other, there in pieces.items()
        if SPLITS.index(one[0]) < SPLITS.index(other[0])
        # The shares can only be close where the sizes are: this spares most of the work.
        and 0.5 * len(here) <= len(there) <= 2 * len(here)
        and len(here & there) >= 0.5 * len(here | there)
    ]
    assert close == []
    texts = [plain(row["prompt"]) or row["prompt"] for name in SPLITS for row in rows[name]]
    assert len(set(texts)) == len(texts)


def test_every_label_stands_in_every_prompt(folder: Path, labels: list[str]) -> None:
    prompts = sorted((folder / "prompts").rglob("*.txt"))
    assert len(prompts) == 3
    for prompt in prompts:
        text = prompt.read_text(encoding="utf-8")
        assert [label for label in labels if label not in text] == [], prompt.name
