"""What rows say about their task, and how they are split: pure."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from tunegate import starter
from tunegate.starter import Looked
from tunegate.types import Row, Turn


def look(answers: list[str], systems: list[str | None] | None = None) -> Looked:
    looked = Looked()
    for number, answer in enumerate(answers):
        system = systems[number] if systems else None
        head = [Turn("system", system)] if system is not None else []
        turns = (*head, Turn("user", f"question {number}"), Turn("assistant", answer))
        looked.add(Row(index=number, line=number + 1, turns=turns))
    return looked


def test_short_answers_that_come_back_are_labels() -> None:
    looked = look(["yes", "no", "other"] * 4)
    assert (looked.answer, looked.labels()) == ("label", ["no", "other", "yes"])
    assert starter.escape_of(looked.labels()) == "other"


@pytest.mark.parametrize(
    "answers",
    [
        ["yes"] * 9,
        [f"answer {number}" for number in range(9)],
        ["a long answer of more characters than any label has, " * 2, "short"] * 5,
        ["two\nlines", "one"] * 5,
        [""] * 9,
    ],
)
def test_other_answers_are_texts(answers: list[str]) -> None:
    looked = look(answers)
    assert (looked.answer, looked.labels()) == ("text", [])


def test_json_answers_give_schema_class_and_labels() -> None:
    values = [
        {"note": f"n{number}", "intent": "ab"[number % 2], "count": number, "who": None}
        for number in range(8)
    ]
    values[3] = {**values[3], "more": [1]}
    looked = look([json.dumps(value) for value in values])
    assert (looked.answer, looked.pointer(), looked.labels()) == ("json", "/intent", ["a", "b"])
    schema = looked.schema()
    assert schema["required"] == ["note", "intent", "count", "who"]
    assert schema["properties"] == {
        "note": {"type": "string"},
        "intent": {"enum": ["a", "b"]},
        "count": {"type": "number"},
        "who": {"type": "null"},
        "more": {"type": "array"},
    }


def test_one_answer_that_is_no_object_makes_texts_of_all() -> None:
    assert look(['{"a": 1}'] * 5 + ["[1]"]).answer != "json"


def test_a_common_system_prompt_is_taken_over_and_others_are_not() -> None:
    assert look(["x"] * 2, ["Sort.", "Sort."]).system() == "Sort."
    assert look(["x"] * 2, ["Sort.", "Sort it."]).system() is None
    assert look(["x"] * 2, ["Sort.", None]).system() is None


@pytest.mark.parametrize(
    ("labels", "escape"),
    [(["a", "None of these"], "None of these"), (["oos", "other"], None), (["a", "b"], None)],
)
def test_an_escape_class_is_known_by_its_name(labels: list[str], escape: str | None) -> None:
    assert starter.escape_of(labels) == escape


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), min_size=1, max_size=120))
def test_rows_of_one_text_stay_together_and_training_keeps_its_share(
    drawn: list[tuple[int, int]],
) -> None:
    rows = [(f"text {text}", f"class {kind}") for text, kind in drawn]
    test, validation = starter.sizes(len(rows), test_needed=36)
    parts = starter.split(rows, parts={"test": test, "validation": validation})
    by_text: dict[str, set[str]] = {}
    for (text, _), part in zip(rows, parts, strict=True):
        by_text.setdefault(text, set()).add(part)
    assert all(len(found) == 1 for found in by_text.values())
    assert "train" in parts
    assert parts == starter.split(rows, parts={"test": test, "validation": validation})


def test_every_class_gets_its_share() -> None:
    rows = [(f"text {number}", "abcd"[number % 4]) for number in range(200)]
    parts = starter.split(rows, parts={"test": 40, "validation": 24})
    assert Counter(parts) == {"train": 136, "test": 40, "validation": 24}
    by_class = Counter(
        label for (_, label), part in zip(rows, parts, strict=True) if part == "test"
    )
    assert set(by_class.values()) == {10}


def test_the_order_of_the_file_decides_nothing() -> None:
    rows = [(f"text {number}", "ab"[number % 2]) for number in range(60)]
    wanted = {"test": 12, "validation": 8}
    there = dict(zip(rows, starter.split(rows, parts=wanted), strict=True))
    back = dict(zip(rows[::-1], starter.split(rows[::-1], parts=wanted), strict=True))
    assert there == back


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_any_text_survives_the_run_file(text: str) -> None:
    line = f"key: {starter.scalar(text)}  # a comment"
    assert YAML(typ="safe").load(line)["key"] == text
