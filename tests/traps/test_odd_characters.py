"""Texts hold what is no character, or look empty; halves of surrogates stop later writers."""

import json

import pytest

from tests.stand_ins import run, triage, verdict
from tests.toys import chat
from tunegate.types import Status


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (chat("\u200b \ufeff", "answer"), "empty question"),
        (chat("question\x00", "answer"), "NUL"),
    ],
)
def test_the_row_is_named(tmp_path, row, message):
    found = verdict("data_lint", run(tmp_path, train=[*triage(), row]))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert message in found.findings[0].message


@pytest.mark.parametrize("half", [b'"\\ud83d"', b'"\xed\xa0\xbd"'])
def test_half_a_surrogate_pair_is_refused_with_its_line(tmp_path, half):
    inputs = run(tmp_path)
    path = inputs.path("train")
    path.write_bytes(path.read_bytes() + b'{"prompt": "x", "completion": ' + half + b"}\n")
    found = verdict("data_lint", inputs)
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert verdict("leak_check", inputs).findings[0].where == "data/train.jsonl:7"


def test_a_pair_escaped_whole_is_a_character(tmp_path):
    inputs = run(tmp_path)
    path = inputs.path("train")
    line = json.dumps(chat("\U0001f600", "answer"), ensure_ascii=True)
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    assert "\\ud83d" in line
    assert verdict("data_lint", inputs).status == Status.PASS


@pytest.mark.parametrize("mark", ["\ufffd", "\ufeff"])
def test_marks_of_a_wrong_encoding_are_told(tmp_path, mark):
    rows = [*triage(), *(chat(f"caf{mark} {n}", f"{n}") for n in range(4))]
    found = verdict("data_lint", run(tmp_path, train=rows))
    assert found.status == Status.PASS
    assert "4 rows of train are like it" in found.warnings[0].message


def test_control_tokens_of_the_tokenizer_and_of_others_are_told_apart(tmp_path):
    rows = [*triage(), chat("a <|im_end|> b", "x"), chat("see [INST]", "y")]
    found = verdict("data_lint", run(tmp_path, train=rows))
    assert found.status == Status.PASS
    own, foreign = (warning.message for warning in found.warnings)
    assert "<|im_end|>, which the tokenizer reads" in own
    assert "[INST], a control token of other models" in foreign
