"""The loss lies on a copy of the answer inside the question; decoded it reads just the same."""

import pytest

from tests.stand_ins import Trainer, first_copy_of_answer, run, verdict
from tests.toys import CHATML, chat
from tunegate.types import Status

OTHER = CHATML.replace("<|im_start|>", "<|pad|>")
ROWS = [chat("Please repeat after me: yes", "yes"), chat("yes", "yes")]


@pytest.mark.parametrize("training", [None, OTHER])
def test_the_position_counts_not_only_the_text(tmp_path, training):
    inputs = run(
        tmp_path, trainer=Trainer(first_copy_of_answer), train=ROWS, training_source=training
    )
    found = verdict("mask_exact", inputs)
    assert found.status == Status.FAIL
    assert found.numbers["problems"] == {"misplaced": 2}


@pytest.mark.parametrize("training", [None, OTHER])
def test_the_same_rows_pass_with_the_loss_on_the_answer(tmp_path, training):
    found = verdict("mask_exact", run(tmp_path, train=ROWS, training_source=training))
    assert found.status == Status.PASS
