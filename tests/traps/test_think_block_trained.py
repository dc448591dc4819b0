"""The template puts an empty think block before the answer, and it is trained."""

from tests.stand_ins import run, verdict
from tests.toys import CHATML
from tunegate.types import Status

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
    from tests.stand_ins import Trainer

    inputs = run(tmp_path, template=NO_THINK, trainer=Trainer(whole_block))
    assert verdict("mask_exact", inputs).status == Status.PASS
    assert verdict("render_parity", inputs).status == Status.PASS
