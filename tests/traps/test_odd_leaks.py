"""Test texts that reach training in disguise, and other differences that nobody sees."""

import pytest

from tests.stand_ins import SYSTEM, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status

ASKED = "Where is the blue tent that I ordered?"


@pytest.mark.parametrize(
    "text",
    [
        ASKED.replace("e", "\u0435").replace("o", "\u043e"),
        ASKED.upper().replace("T", "\u0422").replace("H", "\u041d"),
        ASKED.replace("e", "e\u200b"),
    ],
)
def test_a_test_text_in_other_letters_is_a_leak(tmp_path, text):
    rows = [*triage(), chat(text, "x")]
    found = verdict("leak_check", run(tmp_path, train=rows, splits={"test": [chat(ASKED, "y")]}))
    assert found.status == Status.FAIL


def test_texts_in_another_script_are_no_leak(tmp_path):
    train = [*triage(), chat("Где мой синий заказ, который я ждал?", "x")]
    splits = {"test": [chat("Где мой чайник, который я вчера купил?", "y")]}
    assert verdict("leak_check", run(tmp_path, train=train, splits=splits)).status == Status.PASS


def test_a_test_text_in_a_turn_without_weight_is_a_leak(tmp_path):
    row = chat("Say more.", "x")
    row["messages"][1:1] = [
        {"role": "assistant", "content": ASKED, "weight": 0},
        {"role": "user", "content": "And?"},
    ]
    splits = {"test": [chat(ASKED, "y")]}
    found = verdict("leak_check", run(tmp_path, train=[*triage(), row], splits=splits))
    assert found.status == Status.FAIL
    assert "data/train.jsonl:7" in str(found.findings[0])


def test_carriage_returns_in_training_alone_are_refused(tmp_path):
    train = [*triage(), chat("one\r\ntwo", "x")]
    found = verdict(
        "data_lint", run(tmp_path / "a", train=train, splits={"test": [chat("a\nb", "y")]})
    )
    assert found.status == Status.FAIL
    assert "those of test have plain newlines" in found.findings[0].message
    same = {"test": [chat("a\r\nb", "y")]}
    found = verdict("data_lint", run(tmp_path / "b", train=train, splits=same))
    assert found.status == Status.PASS


def told(tmp_path, rows):
    found = verdict("data_lint", run(tmp_path, train=rows))
    assert found.status == Status.PASS
    return " ".join(item.message for item in found.warnings)


def test_the_system_prompt_in_a_question_is_told(tmp_path):
    rows = [*triage(), chat(f"{SYSTEM}\n\nWhere is it?", "x")]
    assert "repeats the system prompt" in told(tmp_path, rows)


def test_space_around_some_answers_is_told(tmp_path):
    assert "1 of 7 answers begin or end with space" in told(tmp_path, [*triage(), chat("?!", " x")])
    every = [chat(f"question {n}", f" answer {n}") for n in range(4)]
    assert "space" not in told(tmp_path / "all", every)


def test_a_key_that_is_nearly_known_is_told(tmp_path):
    rows = [chat(f"question {n}", f"answer {n}", tolls=n, topic=n) for n in range(4)]
    found = told(tmp_path, rows)
    assert "'tolls' means nothing here" in found and "'topic'" not in found


def test_a_system_turn_that_differs_in_line_ends_says_so(tmp_path):
    rows = [*triage(), chat("question", "x", system=SYSTEM + "\n")]
    found = verdict("data_lint", run(tmp_path, train=rows))
    assert found.status == Status.FAIL
    assert "only in line ends" in found.findings[0].message
