"""A declared label has no training row, so that it is never predicted."""

from tests.stand_ins import JSON_TASK, run, triage, verdict
from tunegate.freeze import labels_in_schema
from tunegate.types import Status


def test_a_label_without_rows_is_refused(tmp_path):
    rows = [row for row in triage() if "return_item" not in row["messages"][1]["content"]]
    found = verdict("data_lint", run(tmp_path, train=rows, task=JSON_TASK))
    assert found.status == Status.FAIL
    assert "no training row: 'return_item'" in found.findings[0].message


def test_labels_are_read_from_the_schema_where_none_are_listed(tmp_path):
    labels = labels_in_schema(JSON_TASK["schema"], JSON_TASK["class"])
    task = {**JSON_TASK, "labels": labels}
    found = verdict("data_lint", run(tmp_path, train=triage()[:1] * 2, task=task))
    assert "2 declared labels" in " ".join(finding.message for finding in found.findings)


def test_few_rows_and_an_unmeasured_label_are_told(tmp_path):
    inputs = run(tmp_path, splits={"test": triage()[:1]}, task=JSON_TASK)
    told = " ".join(warning.message for warning in verdict("data_lint", inputs).warnings)
    assert "few training rows: 'order_status' 2" in told
    assert "nothing is measured of them: 'return_item', 'none_of_these'" in told


def test_an_escape_class_that_is_no_label_is_refused(tmp_path):
    task = {**JSON_TASK, "escape": "other"}
    assert verdict("data_lint", run(tmp_path, task=task)).status == Status.FAIL
