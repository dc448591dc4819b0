"""The prompt carries loss as well as the answer: raw text, unmasked chat, the answer's header."""

import pytest

from tests.stand_ins import (
    JSON_TASK,
    Trainer,
    header_in_loss,
    raw_text,
    run,
    triage,
    unmasked_chat,
    verdict,
)
from tunegate.types import Status


@pytest.mark.parametrize("prepare", [raw_text, unmasked_chat])
def test_a_trained_prompt_is_refused_with_its_row_and_counts(tmp_path, prepare):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(prepare)))
    assert found.status == Status.FAIL
    assert found.numbers["rows_wrong"] == 6
    first = found.findings[0]
    assert first.where == "data/train.jsonl:1"
    assert "the answer and its end are 9" in first.message
    assert "tokens carry loss" in first.message
    assert "Where is my order?" in first.message
    assert "loss" in (first.change or "")


def test_a_text_column_beside_the_answer_is_named_as_the_cause(tmp_path):
    rows = [
        {
            "prompt": row["messages"][0]["content"],
            "completion": row["messages"][1]["content"],
            "text": f"{row['messages'][0]['content']}\n\n{row['messages'][1]['content']}",
        }
        for row in triage()
    ]
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(raw_text), train=rows))
    assert found.status == Status.FAIL
    assert 'remove the "text" column' in (found.findings[0].change or "")


def test_raw_text_whose_answer_nobody_knows_is_refused(tmp_path):
    rows = [{"text": f"question {n}\n\nanswer {n}"} for n in range(4)]
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(raw_text), train=rows))
    assert found.status == Status.FAIL
    assert "does not say which part" in found.findings[0].message


def test_three_tokens_of_the_header_in_the_loss_are_refused(tmp_path):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(header_in_loss), task=JSON_TASK))
    assert found.status == Status.FAIL
    assert "'<|im_start|>assistant\\n'" in found.findings[0].message
