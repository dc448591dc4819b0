"""A row that is not trained on is longer than the limit or the model's context."""

import pytest

from tests.stand_ins import run, triage, verdict
from tests.toys import CHATML, chat
from tunegate.types import Status

LONG = chat("Where is the tent? " * 40, "no")
RULE = {"prompt": LONG["messages"][0]["content"], "check": {"contains": "tent"}}


def audit(folder, split, rows, *, context=400, max_length=None, choices=(), **options):
    inputs = run(folder, splits={split: rows}, **options)
    inputs.frozen["base"]["context"] = context
    inputs.frozen["choices"] = list(choices)
    inputs.frozen["settings"]["train"]["max_length"] = max_length
    inputs.frozen["settings"]["eval"] = {"max_new_tokens": 40, "rule_max_new_tokens": 40}
    return verdict("length_audit", inputs)


@pytest.mark.parametrize(
    ("split", "row"), [("test", LONG), ("slice:odd", LONG), ("slice:general", RULE)]
)
def test_a_row_beyond_the_context_is_refused(tmp_path, split, row):
    found = audit(tmp_path, split, [triage()[0] if row is LONG else RULE, row], context=200)
    assert found.status == Status.FAIL
    assert found.findings[-1].where.endswith(".jsonl:2")
    assert "context of 200 less 40 for the answer" in found.findings[-1].message


def test_the_answer_needs_room_too(tmp_path):
    longest = audit(tmp_path / "a", "test", [LONG], context=9_999).numbers["longest_held"]["test"]
    assert audit(tmp_path / "b", "test", [LONG], context=longest + 40).status == Status.PASS
    assert audit(tmp_path / "c", "test", [LONG], context=longest + 39).status == Status.FAIL


def test_a_validation_row_beyond_max_length_is_refused(tmp_path):
    found = audit(tmp_path, "validation", [triage()[0], LONG], context=9_999, max_length=200)
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/validation.jsonl:2"
    longest = found.numbers["longest_held"]["validation"]
    assert f"set train.max_length to {longest}" in (found.hint or "")
    again = audit(tmp_path / "b", "validation", [LONG], context=9_999, max_length=longest)
    assert again.status == Status.PASS


def test_a_limit_that_was_chosen_for_the_training_rows_is_told(tmp_path):
    choice = {"key": "train.max_length", "value": 200, "reason": "the longest row has 198 tokens"}
    rows = [triage()[0], LONG]
    found = audit(tmp_path, "validation", rows, context=9_999, max_length=200, choices=[choice])
    assert found.status == Status.PASS
    assert "train.max_length of 200" in found.warnings[0].message
    rows = [LONG, LONG]
    none = audit(tmp_path, "validation", rows, context=9_999, max_length=200, choices=[choice])
    assert none.status == Status.FAIL


def test_rows_that_the_template_refuses_are_named(tmp_path):
    strict = "{% if messages[0].content == 'Sing!' %}{{ raise_exception('no songs') }}{% endif %}"
    rows = [triage()[0], chat("Sing!", "la")]
    options = {"template": strict + CHATML, "system": None}
    found = audit(tmp_path, "test", rows, context=9_999, **options)
    assert found.status == Status.FAIL
    assert "the template refuses it" in found.findings[0].message
    assert found.findings[0].where == "data/test.jsonl:2"
