"""An answer is not what the task declares: another label, no JSON, other keys."""

import json

import pytest

from tests.stand_ins import JSON_TASK, run, triage, verdict
from tests.toys import chat
from tunegate.freeze import labels_in_schema
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
    assert "'maybe' is no declared label; declared: 'yes', 'no'" in found.findings[0].message


def test_the_rows_as_declared_pass(tmp_path):
    found = verdict("data_lint", run(tmp_path, task=JSON_TASK))
    assert found.status == Status.PASS


def turns(first, *, weight):
    return {
        "messages": [
            {"role": "user", "content": "first"},
            {"role": "assistant", "content": first, "weight": weight},
            {"role": "user", "content": "second"},
            {"role": "assistant", "content": '{"intent": "order_status"}'},
        ]
    }


def test_every_answer_with_loss_is_looked_at(tmp_path):
    rows = [*triage(), turns("I cannot tell.", weight=1)]
    found = verdict("data_lint", run(tmp_path, train=rows, task=JSON_TASK))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    silent = [*triage(), turns("I cannot tell.", weight=0)]
    found = verdict("data_lint", run(tmp_path / "silent", train=silent, task=JSON_TASK))
    assert found.status == Status.PASS


@pytest.mark.parametrize("values", [[True, False], [1, 2, 3]])
def test_classes_that_are_no_text_are_spelt_as_json(tmp_path, values):
    schema = {"type": "object", "properties": {"a/b": {"enum": values}}}
    task = {"answer": "json", "schema": schema, "class": "/a~1b"}
    labels = labels_in_schema(schema, task["class"])
    assert labels == [json.dumps(value) for value in values]
    rows = [chat(f"q{n}", json.dumps({"a/b": values[n % len(values)]})) for n in range(9)]
    found = verdict("data_lint", run(tmp_path, train=rows, task={**task, "labels": labels}))
    assert found.status == Status.PASS
    assert set(found.numbers["labels"]) == set(labels)
    wrong = [*rows, chat("q9", '{"a/b": 7}')]
    inputs = run(tmp_path / "wrong", train=wrong, task={**task, "labels": labels})
    assert verdict("data_lint", inputs).status == Status.FAIL


def test_labels_that_the_schema_refers_to_are_declared(tmp_path):
    from tunegate.freeze import labels_in_schema

    schema = {
        "$defs": {"intent": {"enum": ["order_status", "return_item", "none_of_these"]}},
        "type": "object",
        "properties": {"intent": {"$ref": "#/$defs/intent"}},
    }
    labels = ["order_status", "return_item", "none_of_these"]
    assert labels_in_schema(schema, "/intent") == labels
    assert labels_in_schema({"$ref": "#/$ref"}, "/intent") is None
    task = {**JSON_TASK, "schema": schema, "labels": labels_in_schema(schema, JSON_TASK["class"])}
    rows = [row for row in triage() if "return_item" not in str(row)]
    found = verdict("data_lint", run(tmp_path, train=rows, task=task))
    assert found.status == Status.FAIL
    assert "'return_item'" in found.findings[0].message
