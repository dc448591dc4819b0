"""The template puts an empty think block before the answer, and it is trained."""

from tests.stand_ins import Trainer, run, verdict
from tests.toys import CHATML
from tunegate.types import Status
from tunegate.worker.encode import encode_row

BLOCK = "<think>\n\n</think>\n\n"
QWEN3 = CHATML.replace(
    "message['role'] + '\n' +",
    f"message['role'] + '\n' + ('{BLOCK}' if message['role'] == 'assistant' else '') +",
)
NO_THINK = QWEN3.replace("assistant\n' }}{% endif %}", f"assistant\n{BLOCK}' }}}}{{% endif %}}")


def whole_block(row, tokenizer, template):
    """Loss from the answer's header to its end, the block included."""
    from tests.stand_ins import _example

    text = template.render(row.turns, add_generation_prompt=False)
    head = text.rindex("assistant\n") + len("assistant\n")
    before, rest = tokenizer.encode(text[:head]), tokenizer.encode(text[head:].rstrip("\n"))
    return _example(row, [*before, *rest], len(before), len(before) + len(rest))


def test_a_block_that_serving_does_not_send_is_refused(tmp_path):
    found = verdict("mask_exact", run(tmp_path, template=QWEN3))
    assert found.status == Status.FAIL
    assert "<think>" in found.findings[0].message


def test_a_block_served_in_no_think_mode_passes(tmp_path):
    inputs = run(tmp_path, template=NO_THINK, trainer=Trainer(whole_block))
    assert verdict("mask_exact", inputs).status == Status.PASS
    assert verdict("render_parity", inputs).status == Status.PASS


SWITCHED = QWEN3.replace(
    "assistant\n' }}{% endif %}",
    "assistant\n' }}{% if enable_thinking is false %}{{ 'BLOCK' }}{% endif %}{% endif %}".replace(
        "BLOCK", BLOCK
    ),
)
"""As Qwen3: the prompt ends with the block only where thinking is switched off."""


def own_encoder(row, tokenizer, template):
    return encode_row(row, tokenizer=tokenizer, template=template)


def test_the_refusal_names_the_switch_and_the_switch_opens_the_gate(tmp_path):
    inputs = run(tmp_path / "on", template=SWITCHED, trainer=Trainer(own_encoder))
    for name in ("mask_exact", "render_parity"):
        found = verdict(name, inputs)
        assert found.status == Status.FAIL
        assert "chat_template_kwargs: {enable_thinking: false}" in found.hint
    off = {"enable_thinking": False}
    inputs = run(tmp_path / "off", template=SWITCHED, trainer=Trainer(own_encoder), kwargs=off)
    for name in ("mask_exact", "render_parity", "stop_token"):
        assert verdict(name, inputs).status == Status.PASS
