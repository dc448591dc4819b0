"""The prompt that serving sends is not the beginning of the training text."""

from tests.stand_ins import Trainer, run, verdict
from tests.toys import CHATML
from tunegate.types import Status
from tunegate.worker.encode import encode_row

THINKING = CHATML.replace("assistant\n' }}{% endif %}", "assistant\n<think>' }}{% endif %}")


def own_encoder(row, tokenizer, template):
    return encode_row(row, tokenizer=tokenizer, template=template)


def test_no_check_guesses_where_the_answer_begins(tmp_path):
    for check in ("mask_exact", "render_parity", "stop_token", "length_audit"):
        found = verdict(check, run(tmp_path, template=THINKING, trainer=Trainer(own_encoder)))
        assert found.status == Status.CANNOT_TELL
        assert "not the beginning of the training text" in found.summary
        assert found.findings[0].where == "data/train.jsonl:1"
