"""A row has two answers and the trainer teaches the last only."""

from tests.stand_ins import Trainer, every_answer, masked_by_prompt, run, verdict
from tunegate.types import Status

ROW = {
    "messages": [
        {"role": "user", "content": "What is two and two?"},
        {"role": "assistant", "content": "Four."},
        {"role": "user", "content": "And three and three?"},
        {"role": "assistant", "content": "Six."},
    ]
}


def test_an_answer_without_loss_is_refused(tmp_path):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(masked_by_prompt), train=[ROW]))
    assert found.status == Status.FAIL
    assert "turn 3 is an answer and carries no loss" in found.findings[0].message
    assert "weight 0" in (found.hint or "")


def test_both_trained_passes(tmp_path):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(every_answer), train=[ROW]))
    assert found.status == Status.PASS


def test_the_first_declared_silent_passes_with_the_last_only(tmp_path):
    turns = [dict(turn) for turn in ROW["messages"]]
    turns[1]["weight"] = 0
    silent = [{"messages": turns}]
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(masked_by_prompt), train=silent))
    assert found.status == Status.PASS
    both = verdict("mask_exact", run(tmp_path, trainer=Trainer(every_answer), train=silent))
    assert both.status == Status.FAIL
