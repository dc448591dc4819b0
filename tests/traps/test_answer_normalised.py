"""A tokenizer that composes characters (Unicode NFC, as Qwen's does) cannot write some answers."""

import json

import pytest

from tests.stand_ins import Trainer, masked_by_prompt, run, triage, verdict
from tests.toys import chat
from tunegate.types import Status

DECOMPOSED, COMPOSED = "cafe\u0301", "caf\u00e9"


def composing(path, rows):
    inputs = run(path, trainer=Trainer(masked_by_prompt), train=[*triage(), *rows])
    file = path / "base/tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "normalizer": {"type": "NFC"}}))
    return inputs


def test_the_answer_is_named_with_what_to_do(tmp_path):
    inputs = composing(tmp_path, [chat("Where?", DECOMPOSED)])
    found = verdict("mask_exact", inputs)
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert "NFC" in found.findings[0].message and "Unicode NFC" in found.hint
    assert verdict("render_parity", inputs).status == Status.PASS


@pytest.mark.parametrize("row", [chat("Where?", COMPOSED), chat(DECOMPOSED, "yes")])
def test_composed_answers_and_any_question_pass(tmp_path, row):
    inputs = composing(tmp_path, [row])
    for name in ("mask_exact", "render_parity"):
        assert verdict(name, inputs).status == Status.PASS
