"""Padding is masked by id where pad and end are one token, so the model never learns to stop."""

from tests.stand_ins import Trainer, end_masked_as_padding, run, verdict
from tunegate.types import Status


def test_a_masked_end_is_refused_by_both_checks(tmp_path):
    inputs = run(tmp_path, trainer=Trainer(end_masked_as_padding))
    stop = verdict("stop_token", inputs)
    assert stop.status == Status.FAIL
    assert "it is the pad token as well" in stop.findings[0].message
    assert "'<|im_end|>'" in stop.findings[0].message
    mask = verdict("mask_exact", inputs)
    assert mask.numbers["problems"] == {"end_not_trained": 6}
    assert "mask padding by position" in (mask.hint or "")
