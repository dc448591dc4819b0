"""The mask is computed on a prompt with an extra end token, so the first answer token is lost."""

from tests.stand_ins import Trainer, prompt_with_extra_end, run, verdict
from tunegate.types import Status


def test_a_masked_first_token_is_refused(tmp_path):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(prompt_with_extra_end)))
    assert found.status == Status.FAIL
    assert found.numbers["problems"] == {"start_not_trained": 6}
    assert found.findings[0].where == "data/train.jsonl:1"
    assert verdict("stop_token", run(tmp_path, trainer=Trainer(prompt_with_extra_end))).status == (
        Status.PASS
    )
