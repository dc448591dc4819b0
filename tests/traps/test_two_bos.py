"""The template prints the begin-of-text token and the tokenizer adds another."""

from tests.stand_ins import Trainer, masked_by_prompt, run, two_begins, verdict
from tests.toys import LLAMA3
from tunegate.types import Status

LLAMA = {"template": LLAMA3, "bos_token": "<bos>", "eos_token": "<|eot_id|>"}


def test_a_second_begin_is_refused(tmp_path):
    found = verdict("render_parity", run(tmp_path, trainer=Trainer(two_begins), **LLAMA))
    assert found.status == Status.FAIL
    assert found.numbers["problems"] == {"two_bos": 6}
    assert "'<bos>'" in found.findings[0].message


def test_one_passes(tmp_path):
    found = verdict("render_parity", run(tmp_path, trainer=Trainer(masked_by_prompt), **LLAMA))
    assert found.status == Status.PASS
