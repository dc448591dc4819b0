"""Training renders a row otherwise than serving does."""

import pytest

from tests.stand_ins import Trainer, raw_text, run, verdict
from tests.toys import CHATML, SMOLLM2
from tunegate.types import Status

HUMAN = CHATML.replace("message['role'] +", "message['role'] | replace('user', 'human') +")
SPACED = CHATML.replace("<|im_start|>assistant\n", "<|im_start|>assistant\n\n")


def test_another_role_name_is_refused_with_both_texts(tmp_path):
    found = verdict("render_parity", run(tmp_path, training_source=HUMAN))
    assert found.status == Status.FAIL
    first = found.findings[0]
    assert first.where == "data/train.jsonl:1"
    assert "human" in first.message
    assert "user" in first.message
    assert "train.chat_template" in (first.change or "")


def test_raw_text_against_a_chat_prompt_is_refused(tmp_path):
    found = verdict("render_parity", run(tmp_path, trainer=Trainer(raw_text)))
    assert found.status == Status.FAIL
    assert "differ at token 0" in found.findings[0].message


def test_raw_text_without_a_conversation_is_refused(tmp_path):
    rows = [{"text": "question\n\nanswer"}]
    found = verdict("render_parity", run(tmp_path, trainer=Trainer(raw_text), train=rows))
    assert found.status == Status.FAIL
    assert "raw text without a conversation" in found.findings[0].message


def test_a_system_line_in_training_only_is_refused(tmp_path):
    inputs = run(tmp_path, training_source=SMOLLM2, system=None)
    found = verdict("render_parity", inputs)
    assert found.status == Status.FAIL
    assert "You are a help" in found.findings[0].message


@pytest.mark.parametrize("training", [None, CHATML + "{# the same text #}"])
def test_templates_that_render_alike_pass(tmp_path, training):
    assert verdict("render_parity", run(tmp_path, training_source=training)).status == Status.PASS


def test_a_template_that_opens_the_answer_with_more_is_refused(tmp_path):
    prompt_only = (
        "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}"
        "{% if m['role'] == 'assistant' %}{{ '<think></think>' }}{% endif %}"
        "{{ m['content'] + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    found = verdict("render_parity", run(tmp_path, training_source=prompt_only))
    assert found.status == Status.FAIL
    assert "goes on with '<think></think>" in found.findings[0].message
    assert verdict("mask_exact", run(tmp_path, training_source=prompt_only)).status == Status.FAIL
