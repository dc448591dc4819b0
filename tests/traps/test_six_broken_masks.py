"""The six broken masks of the catalogue's first finding; "not all ignored" sees one of them."""

import pytest

from tests import stand_ins
from tests.stand_ins import Trainer, run, verdict
from tunegate.types import IGNORED, Example, Status


def tail_cut(row, tokenizer, template):
    """The last four tokens are cut, the end among them."""
    whole = stand_ins.masked_by_prompt(row, tokenizer, template)
    return Example(row.index, whole.input_ids[:-4], whole.labels[:-4], cut=4)


BROKEN = {
    "all tokens trained": Trainer(stand_ins.unmasked_chat),
    "all masked": Trainer(stand_ins.marker_not_found),
    "end masked": Trainer(stand_ins.end_masked_as_padding),
    "first answer token masked": Trainer(stand_ins.prompt_with_extra_end),
    "prompt tokens leaking": Trainer(stand_ins.header_in_loss),
    "answer tail cut": Trainer(tail_cut),
}


def not_all_ignored(inputs):
    """The check that the incident would have passed."""
    return all(
        any(label != IGNORED for label in example.labels)
        for batch in inputs.framework.batches(inputs.job)
        for example in batch
    )


@pytest.mark.parametrize("name", BROKEN)
def test_each_is_refused_with_a_row(tmp_path, name):
    found = verdict("mask_exact", run(tmp_path, trainer=BROKEN[name]))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:1"


def test_the_right_mask_passes(tmp_path):
    assert verdict("mask_exact", run(tmp_path)).status == Status.PASS


def test_a_check_for_any_label_would_miss_five(tmp_path):
    caught = [
        name
        for number, (name, trainer) in enumerate(BROKEN.items())
        if not not_all_ignored(run(tmp_path / str(number), trainer=trainer))
    ]
    assert caught == ["all masked"]
