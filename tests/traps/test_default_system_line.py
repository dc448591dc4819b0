"""The template puts a system turn of its own where a row has none."""

from tests.stand_ins import run, triage, verdict
from tests.toys import SMOLLM2
from tunegate.types import Status

LINE = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"


def test_text_that_the_row_lacks_is_refused_and_quoted(tmp_path):
    found = verdict("render_parity", run(tmp_path, template=SMOLLM2, system=None))
    assert found.status == Status.FAIL
    assert LINE in found.findings[0].message
    assert found.findings[0].where == "data/train.jsonl:1"
    assert "prompt.system" in (found.hint or "")


def test_a_prompt_file_declares_what_is_said(tmp_path):
    found = verdict("render_parity", run(tmp_path, template=SMOLLM2, system=LINE))
    assert found.status == Status.PASS


def test_rows_with_a_system_turn_of_their_own_pass(tmp_path):
    rows = triage(system="Answer in JSON.")
    found = verdict("render_parity", run(tmp_path, template=SMOLLM2, system=None, train=rows))
    assert found.status == Status.PASS
