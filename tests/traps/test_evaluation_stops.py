"""Training would end well and evaluation would then stop: no class, unknown rules, ids, teacher."""

import pytest

from tests.stand_ins import JSON_TASK, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status

LOOSE = {**JSON_TASK, "schema": {"type": "object"}}
ODD = [chat("And the tent?", "{}")]
RULE = {"prompt": "Say yes.", "check": {"contains": "yes"}}


def lint(folder, **options):
    return verdict("data_lint", run(folder, **options))


@pytest.mark.parametrize("split", ["train", "validation", "test", "slice:odd"])
def test_an_answer_without_a_class_is_refused(tmp_path, split):
    splits = {split: [*triage(), *ODD]} if split == "train" else {split: ODD}
    found = lint(tmp_path, splits=splits, task=LOOSE)
    assert found.status == Status.FAIL
    assert "no class at /intent" in found.findings[0].message


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_a_row_whose_only_answer_has_no_weight_is_refused(tmp_path, split):
    row = chat("And the tent?", '{"intent": "return_item"}')
    row["messages"][1]["weight"] = 0
    found = lint(tmp_path / "a", splits={split: [*triage(), row]}, task=LOOSE)
    assert found.status == Status.FAIL
    assert found.findings[0].where == f"data/{split}.jsonl:7"
    assert "no assistant turn carries weight" in found.findings[0].message


def test_what_is_compared_with_is_the_last_answer_that_has_weight(tmp_path):
    row = chat("And the tent?", '{"intent": "return_item"}')
    row["messages"] += [
        {"role": "user", "content": "Thanks!"},
        {"role": "assistant", "content": "You are welcome.", "weight": 0},
    ]
    found = lint(tmp_path, splits={"test": [*triage(), row]}, task=LOOSE)
    assert found.status == Status.PASS


def test_a_pointer_that_finds_nothing_is_refused(tmp_path):
    task = {**LOOSE, "class": "/intnet", "labels": None}
    found = lint(tmp_path, task=task)
    assert found.status == Status.FAIL
    assert "no class at /intnet" in found.findings[0].message


@pytest.mark.parametrize(
    "check",
    [
        {},
        {"includes": ["x"]},
        {"choice": ["A", "B"]},
        {"choice": "Q"},
        {"case": "title"},
        {"contains": []},
        {"contains": [1]},
        {"lines": True},
        {"min_words": "3"},
        "yes",
    ],
)
def test_a_rule_that_cannot_be_scored_is_refused(tmp_path, check):
    rows = [RULE, {**RULE, "prompt": "Now?", "check": check}]
    found = lint(tmp_path, splits={"slice:general": rows})
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/slice-general.jsonl:2"


def test_every_known_rule_passes(tmp_path):
    check = {"choice": "a", "equals": "x", "contains": ["x"], "contains_any": ["x"], "lacks": "y"}
    check |= {"min_words": 0, "max_words": 9, "starts_with": "x", "ends_with": ["x"]}
    rows = [{**RULE, "check": {**check, "case": "lower", "lines": 1}}]
    assert lint(tmp_path, splits={"slice:general": rows}).status == Status.PASS


def test_a_test_row_without_an_answer_is_refused(tmp_path):
    for number, row in enumerate((RULE, {"text": "question answer"})):
        found = lint(tmp_path / str(number), splits={"test": [*triage(), row]})
        assert found.status == Status.FAIL
        assert "without an answer" in found.findings[0].message


def scored(*names):
    return [chat(f"question {name}", "x", id=name) for name in names]


def test_an_id_in_test_and_in_a_slice_is_refused(tmp_path):
    found = lint(tmp_path, splits={"test": scored("a", "b"), "slice:odd": scored("b")})
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/slice-odd.jsonl:1"
    assert "data/test.jsonl:2 too" in found.findings[0].message


def test_ids_may_stand_in_training_rows_as_well(tmp_path):
    splits = {"validation": scored("a"), "test": scored("a")}
    assert lint(tmp_path, splits=splits).status == Status.PASS


def answers(*names):
    return [{"id": name, "output": "x"} for name in names]


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        (answers("a", "test:1"), "lacks 1 of 3 rows: 'odd:0'"),
        ([], "lacks 3 of 3 rows"),
        (answers("a", "test:1", "odd:0", "a"), "is answered in line 1 too"),
        ([*answers("a", "test:1", "odd:0"), {"index": 3, "output": "x"}], "have no id"),
    ],
)
def test_a_teacher_that_does_not_answer_each_row_once_is_refused(tmp_path, teacher, message):
    found = lint(tmp_path, splits=taught(teacher))
    assert found.status == Status.FAIL
    assert message in found.findings[0].message


def taught(teacher):
    test = [*scored("a"), chat("question", "y")]
    return {"teacher": teacher, "test": test, "slice:odd": [chat("odd question", "z")]}


def test_a_teacher_with_an_answer_too_many_is_told(tmp_path):
    found = lint(tmp_path, splits=taught(answers("a", "odd:0", "test:1", "more")))
    assert found.status == Status.PASS
    assert any("belong to no row" in warning.message for warning in found.warnings)
