"""Rows that trainers skip or spoil: roles out of order, empty texts, bad lines, foreign prompts."""

import json

import pytest

from tests.stand_ins import SYSTEM, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status


def turns(*roles):
    return {"messages": [{"role": role, "content": f"{role} {n}"} for n, role in enumerate(roles)]}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (turns("user", "user", "assistant"), "user after user"),
        (turns("assistant", "user", "assistant"), "begins with assistant"),
        (turns("user", "system", "assistant"), "system turn that is not the first"),
        (turns("user", "assistant", "user"), "ends without an answer"),
        (turns("user", "tool", "assistant"), "tool after user"),
        (chat("question", ""), "empty answer"),
        (chat(" ", "answer"), "empty question"),
        (chat("question", "answer", system="Another prompt."), "not the frozen prompt"),
        ({"messages": [{"role": "human", "content": "x"}]}, "the role 'human'"),
    ],
)
def test_the_row_is_named(tmp_path, row, message):
    found = verdict("data_lint", run(tmp_path, train=[*triage(), row]))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert message in found.findings[0].message


@pytest.mark.parametrize(
    "row",
    [
        turns("user", "assistant", "tool", "assistant"),
        turns("user", "assistant", "user", "assistant"),
        chat("question", "answer", system=SYSTEM),
    ],
)
def test_good_rows_pass(tmp_path, row):
    assert verdict("data_lint", run(tmp_path, train=[*triage(), row])).status == Status.PASS


def rewritten(tmp_path, change):
    """A run whose training file went through `change` (bytes to bytes)."""
    inputs = run(tmp_path)
    path = inputs.path("train")
    path.write_bytes(change(path.read_bytes()))
    return inputs


def test_a_byte_order_mark_is_refused_with_its_line(tmp_path):
    inputs = rewritten(tmp_path, lambda raw: b"\xef\xbb\xbf" + raw)
    found = verdict("data_lint", inputs)
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:1"
    for check in ("mask_exact", "leak_check", "length_audit"):
        found = verdict(check, inputs)
        assert found.status == Status.CANNOT_TELL
        assert found.findings[0].where == "data/train.jsonl:1"


def test_line_ends_are_told(tmp_path):
    found = verdict("data_lint", rewritten(tmp_path, lambda raw: raw.replace(b"\n", b"\r\n")))
    assert found.status == Status.PASS
    assert "CRLF" in found.warnings[0].message


def test_two_newline_styles_inside_texts_are_refused(tmp_path):
    rows = [chat("one\ntwo", "a"), chat("three\r\nfour", "b")]
    found = verdict("data_lint", run(tmp_path, train=rows))
    assert found.status == Status.FAIL
    assert "carriage returns" in found.findings[0].message


def test_a_line_that_is_no_json_is_named(tmp_path):
    inputs = rewritten(tmp_path, lambda raw: raw + b"{not json}\n" + raw)
    found = verdict("data_lint", inputs)
    assert found.findings[0].where == "data/train.jsonl:7"


def test_keys_in_two_cases_are_refused(tmp_path):
    task = {"answer": "json", "schema": {"type": "object"}, "class": None, "labels": None}
    rows = [chat(f"q{n}", json.dumps({key: n})) for n, key in enumerate(("title", "TITLE"))]
    found = verdict("data_lint", run(tmp_path, train=rows, task=task))
    assert found.status == Status.FAIL
    assert "more than one case" in found.findings[0].message


def test_keys_in_another_case_than_in_another_split_are_refused(tmp_path):
    task = {"answer": "json", "schema": {"type": "object"}, "class": None, "labels": None}
    rows = {
        key: [chat(f"{key} {n}", json.dumps({"id": n, key: n})) for n in range(3)]
        for key in ("note", "Note")
    }
    inputs = run(tmp_path, train=rows["note"], splits={"test": rows["Note"]}, task=task)
    found = verdict("data_lint", inputs)
    assert found.status == Status.FAIL
    assert "in another case than in train: id, Note against id, note" in found.findings[0].message


def test_a_text_column_counts_where_loss_is_measured(tmp_path):
    rows = [chat("Is it open?", "no", text="Is it open? no")]
    found = verdict("data_lint", run(tmp_path / "a", splits={"validation": rows}))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/validation.jsonl:1"
    found = verdict("data_lint", run(tmp_path / "b", splits={"validation": rows}, loss="all"))
    assert found.status == Status.PASS
    found = verdict("data_lint", run(tmp_path / "c", splits={"test": rows}))
    assert found.status == Status.PASS
    assert "evaluation ignores" in found.warnings[0].message


def test_one_answer_for_everything_is_refused(tmp_path):
    rows = [chat(f"question {n}", "yes") for n in range(6)]
    found = verdict("data_lint", run(tmp_path, train=rows))
    assert found.status == Status.FAIL
    assert "the same answer" in found.findings[0].message


def test_an_id_twice_is_refused(tmp_path):
    rows = [chat(f"question {n}", f"answer {n}", id="t1") for n in range(2)]
    found = verdict("data_lint", run(tmp_path, splits={"test": rows}))
    assert found.status == Status.FAIL
    assert "'t1' as in line 1" in found.findings[0].message
