"""The length limit takes the end of an answer: cut by the trainer, told or not."""

import pytest

from tests.stand_ins import Trainer, masked_by_prompt, run, triage, verdict
from tests.toys import chat
from tunegate.types import Example, Status

LONG = [*triage(), chat("Tell me a tale.", "Once upon a time there was a tent. " * 12)]


def silently(row, tokenizer, template):
    """Cuts at 120 tokens and does not say so."""
    whole = masked_by_prompt(row, tokenizer, template)
    return Example(whole.index, whole.input_ids[:120], whole.labels[:120])


@pytest.mark.parametrize("trainer", [Trainer(masked_by_prompt, max_length=120), Trainer(silently)])
def test_a_cut_answer_is_refused_and_its_row_named(tmp_path, trainer):
    inputs = run(tmp_path, trainer=trainer, train=LONG)
    found = verdict("length_audit", inputs)
    assert found.status == Status.FAIL
    assert found.numbers["cut_answers"] == 1
    assert found.findings[0].where == "data/train.jsonl:7"
    assert "there was a tent" in found.findings[0].message
    assert "max_length" in (found.hint or "")
    assert verdict("mask_exact", inputs).status == Status.FAIL


def test_the_same_rows_pass_when_nothing_is_cut(tmp_path):
    found = verdict("length_audit", run(tmp_path, train=LONG))
    assert found.status == Status.PASS
    assert found.numbers["kept"] == 7
