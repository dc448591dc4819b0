"""Rows stand several times in one split, or the same question has two labels."""

from tests.stand_ins import JSON_TASK, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status


def many(count):
    return [chat(f"Where is parcel {n}?", '{"intent": "order_status"}') for n in range(count)]


def test_many_repeated_rows_are_refused(tmp_path):
    rows = [*triage(), *many(100), *many(3)]
    found = verdict("data_lint", run(tmp_path, train=rows, task=JSON_TASK))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:107"
    assert "repetition of line 7" in found.findings[0].message


def test_two_among_a_hundred_are_told(tmp_path):
    rows = [*triage(), *many(100), *many(2)]
    found = verdict("data_lint", run(tmp_path, train=rows, task=JSON_TASK))
    assert found.status == Status.PASS
    assert any("repetition" in warning.message for warning in found.warnings)


def test_contradicting_labels_are_refused_when_many(tmp_path):
    other = [chat(f"Where is parcel {n}?", '{"intent": "return_item"}') for n in range(3)]
    found = verdict(
        "data_lint", run(tmp_path, train=[*triage(), *many(50), *other], task=JSON_TASK)
    )
    assert found.status == Status.FAIL
    assert "'return_item' here and 'order_status' in line 7" in found.findings[0].message


def test_one_contradiction_is_told(tmp_path):
    other = [chat("Where is parcel 3?", '{"intent": "return_item"}')]
    found = verdict(
        "data_lint", run(tmp_path, train=[*triage(), *many(50), *other], task=JSON_TASK)
    )
    assert found.status == Status.PASS
    assert any("same question" in warning.message for warning in found.warnings)


def test_case_spacing_and_layout_make_no_new_row(tmp_path):
    same = [chat(f"where is  Parcel {n}? ", '{"intent":"order_status"}') for n in range(3)]
    found = verdict("data_lint", run(tmp_path, train=[*triage(), *many(50), *same], task=JSON_TASK))
    assert found.status == Status.FAIL
    assert "repetition of line 7" in found.findings[0].message


def test_a_contradiction_in_another_case_is_refused(tmp_path):
    other = [chat(f"WHERE is parcel {n}?", '{"intent": "return_item"}') for n in range(3)]
    found = verdict(
        "data_lint", run(tmp_path, train=[*triage(), *many(50), *other], task=JSON_TASK)
    )
    assert found.status == Status.FAIL
    assert "the same question" in found.findings[0].message


def test_one_last_turn_after_other_answers_is_no_contradiction(tmp_path):
    rows = [
        {
            "messages": [
                {"role": "user", "content": "guess"},
                {"role": "assistant", "content": f"Is it {label}?", "weight": 0},
                {"role": "user", "content": "yes"},
                {"role": "assistant", "content": f'{{"intent": "{label}"}}'},
            ]
        }
        for label in JSON_TASK["labels"]
    ]
    found = verdict("data_lint", run(tmp_path, train=[*triage(), *rows], task=JSON_TASK))
    assert found.status == Status.PASS
    assert not any("same question" in warning.message for warning in found.warnings)
