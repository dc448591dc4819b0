"""The template ends the last answer with no stop token, or training ends on another one."""

from tests.stand_ins import Trainer, masked_by_prompt, raw_text, run, triage, unmasked_chat, verdict
from tests.toys import CHATML, chat
from tunegate.types import Example, Status
from tunegate.worker.encode import encode_row

BARE = CHATML.replace("<|im_end|>", "")


def own_encoder(row, tokenizer, template):
    """Tunegate's encoder, which refuses what it cannot cut."""
    return encode_row(row, tokenizer=tokenizer, template=template)


def without_end(row, tokenizer, template):
    """A text column trained as it stands, with no end token added."""
    whole = raw_text(row, tokenizer, template)
    return Example(whole.index, whole.input_ids[:-1], whole.labels[:-1])


def test_an_answer_that_ends_in_nothing_is_refused(tmp_path):
    found = verdict("stop_token", run(tmp_path, template=BARE))
    assert found.status == Status.FAIL
    assert "serving stops on '<|im_end|>'" in found.findings[0].message


def test_our_encoder_says_that_it_cannot_tell(tmp_path):
    for check in ("stop_token", "mask_exact"):
        found = verdict(check, run(tmp_path, template=BARE, trainer=Trainer(own_encoder)))
        assert found.status == Status.CANNOT_TELL
        assert "no stop token" in found.summary
        assert found.findings[0].where == "data/train.jsonl:1"


def test_a_text_row_without_its_end_is_refused(tmp_path):
    found = verdict("stop_token", run(tmp_path, trainer=Trainer(without_end), loss="all"))
    assert found.status == Status.FAIL
    with_end = verdict("stop_token", run(tmp_path, trainer=Trainer(raw_text), loss="all"))
    assert with_end.status == Status.PASS


def test_an_end_that_serving_does_not_stop_on_is_refused(tmp_path):
    inputs = run(tmp_path, trainer=Trainer(masked_by_prompt), stops=["<|endoftext|>"])
    found = verdict("stop_token", inputs)
    assert found.status == Status.FAIL
    assert "serving stops on '<|endoftext|>'" in found.findings[0].message


def test_an_end_that_the_base_does_not_declare_is_told(tmp_path):
    inputs = run(tmp_path, eos_token="<|endoftext|>", pad_token="<|pad|>")
    found = verdict("stop_token", inputs)
    assert found.status == Status.PASS
    assert "do not name as a stop token" in found.warnings[0].message


def test_a_stop_token_inside_an_answer_is_refused(tmp_path):
    rows = [*triage(), chat("And now?", "yes<|im_end|> and no")]
    found = verdict("stop_token", run(tmp_path, train=rows, trainer=Trainer(own_encoder)))
    assert found.status == Status.FAIL
    assert found.findings[0].where == "data/train.jsonl:7"
    assert "'<|im_end|>' stands inside the answer" in found.findings[0].message


def test_ends_of_earlier_turns_may_be_trained_where_all_is(tmp_path):
    inputs = run(tmp_path, trainer=Trainer(unmasked_chat), loss="all")
    assert verdict("stop_token", inputs).status == Status.PASS
