"""A test row is among the training rows: the same text, or but for case and punctuation."""

import pytest

from tests.stand_ins import run, triage, verdict
from tests.toys import chat
from tunegate.types import Status

CLEAN = [chat("Is there a shop in the harbour street?", "no")]


@pytest.mark.parametrize("split", ["test", "validation", "slice:adversarial"])
@pytest.mark.parametrize(
    "text",
    ["Where is my order? It was due on Monday.", "where is my order... it was due on MONDAY"],
)
def test_a_training_text_in_another_split_is_refused(tmp_path, split, text):
    found = verdict("leak_check", run(tmp_path, splits={split: [*CLEAN, chat(text, "x")]}))
    assert found.status == Status.FAIL
    assert found.findings[0].where.endswith(".jsonl:2")
    assert "data/train.jsonl:1" in found.findings[0].message
    assert found.findings[0].change == "remove data/train.jsonl:1 from the training rows"


def test_validation_and_test_must_be_apart_too(tmp_path):
    found = verdict("leak_check", run(tmp_path, splits={"validation": CLEAN, "test": CLEAN}))
    assert found.status == Status.FAIL
    assert found.numbers["overlap"] == {"test and validation": {"exact": 1}}


def test_a_slice_made_from_test_rows_is_told_only(tmp_path):
    found = verdict("leak_check", run(tmp_path, splits={"slice:odd": CLEAN, "test": CLEAN}))
    assert found.status == Status.PASS
    assert len(found.warnings) == 1


def test_a_slice_that_is_mostly_validation_is_refused(tmp_path):
    rows = [chat(f"Is there a shop in street number {n} by the harbour?", "no") for n in range(4)]
    half = {"slice:odd": rows, "validation": rows[:2]}
    assert verdict("leak_check", run(tmp_path, splits=half)).status == Status.PASS
    most = {"slice:odd": rows, "validation": rows[:3]}
    found = verdict("leak_check", run(tmp_path / "most", splits=most))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/slice-odd.jsonl:1"


def test_short_texts_leak_only_when_they_are_the_same(tmp_path):
    train = [*triage(), chat("hello", "x")]
    other = verdict(
        "leak_check", run(tmp_path, train=train, splits={"test": [chat("Hello!", "x")]})
    )
    assert other.status == Status.PASS
    assert other.numbers["overlap"] == {"test and train": {"short": 1}}
    same = verdict("leak_check", run(tmp_path, train=train, splits={"test": [chat("hello", "x")]}))
    assert same.status == Status.FAIL


def test_every_test_row_in_train_is_counted(tmp_path):
    found = verdict("leak_check", run(tmp_path, splits={"test": triage()}))
    assert found.numbers["overlap"] == {"test and train": {"exact": 6}}
