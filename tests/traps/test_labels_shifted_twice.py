"""Labels are moved by one while preparing, and the trainer moves them again."""

from tests.stand_ins import Trainer, labels_shifted, run, verdict
from tunegate.types import Status


def test_labels_that_are_not_their_inputs_are_refused(tmp_path):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(labels_shifted)))
    assert found.status == Status.FAIL
    assert found.numbers["problems"] == {"label_is_not_input": 6}
    assert "do not shift labels" in (found.hint or "")
