"""An answer is not what the task declares: another label, no JSON, other keys."""

import pytest

from tests.stand_ins import JSON_TASK, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{"intent": "order_state"}', "'order_state' is no declared label"),
        ('{"intent": "Order_Status"}', "'order_status' is"),
        ("order_status", "not JSON"),
        ('{"intent": "order_status", "intent": "return_item"}', "stands twice"),
        ('{"intent": "order_status", "why": "x"}', "does not fit the schema"),
        ('{"class": "order_status"}', "does not fit the schema"),
        ('{"intent": NaN}', "NaN is no JSON number"),
    ],
)
def test_the_row_is_named(tmp_path, answer, message):
    rows = [*triage(), chat("And now?", answer)]
    found = verdict("data_lint", run(tmp_path, train=rows, task=JSON_TASK))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert message in found.findings[0].message


def test_a_label_task_names_the_label(tmp_path):
    task = {"answer": "label", "schema": None, "class": None, "labels": ["yes", "no"]}
    rows = [chat("a", "yes"), chat("b", "no"), chat("c", "maybe")]
    found = verdict("data_lint", run(tmp_path, train=rows, task=task))
    assert found.status == Status.FAIL
    assert "'maybe' is no declared label" in found.findings[0].message


def test_the_rows_as_declared_pass(tmp_path):
    found = verdict("data_lint", run(tmp_path, task=JSON_TASK))
    assert found.status == Status.PASS
