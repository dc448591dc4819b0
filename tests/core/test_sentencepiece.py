"""Tokenizers of the SentencePiece kind: a space before the first word, bytes as tokens."""

import json

import pytest

from tests import toys
from tests.stand_ins import Trainer, run, triage, verdict
from tunegate.checks import names
from tunegate.types import Row, Status, Turn
from tunegate.worker.encode import encode_row, prompt_ids
from tunegate.worker.template import load_template
from tunegate.worker.tokens import load_tokenizer, stop_ids

TEMPLATES = {"mistral": toys.MISTRAL, "chatml": toys.CHATML.replace("<|im_end|>", "</s>")}
TURNS = (Turn("user", "Where is my order? é中"), Turn("assistant", "yes, it is 中"))


@pytest.fixture(params=TEMPLATES)
def base(request, tmp_path):
    return toys.make_sentencepiece_dir(tmp_path / "base", template=TEMPLATES[request.param])


def test_ids_equal_those_of_transformers(base):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(str(base))
    tokenizer = load_tokenizer(base)
    template = load_template(base, special_tokens=tokenizer.special_tokens)
    text = template.render(TURNS, add_generation_prompt=False)
    assert tokenizer.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(tokenizer.encode("Where is é中?")) == "Where is é中?"


def test_a_row_is_the_served_prompt_and_the_answer_as_it_goes_on(base):
    tokenizer = load_tokenizer(base)
    template = load_template(base, special_tokens=tokenizer.special_tokens)
    example = encode_row(Row(0, 1, TURNS), tokenizer=tokenizer, template=template)
    served = prompt_ids(TURNS[:1], tokenizer=tokenizer, template=template)
    assert example.input_ids[: len(served)] == served
    whole = template.render(TURNS, add_generation_prompt=False)
    assert example.input_ids == tokenizer.encode(whole)
    assert stop_ids(base) == {tokenizer.token_id("</s>")}


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
def test_all_checks_pass(tmp_path, template):
    def own_encoder(row, tokenizer, template):
        return encode_row(row, tokenizer=tokenizer, template=template)

    inputs = run(tmp_path, trainer=Trainer(own_encoder), system=None, train=triage())
    base = toys.make_sentencepiece_dir(tmp_path / "pieces", template=template)
    inputs.frozen["base"].update(dir=str(base), vocab=load_tokenizer(base).vocab_size)
    inputs.frozen["template"]["source"] = template
    inputs.frozen["tokenizer"]["stop_ids"] = sorted(stop_ids(base))
    found = {name: verdict(name, inputs) for name in names("host")}
    assert {name: str(one.status) for name, one in found.items()} == dict.fromkeys(
        names("host"), str(Status.PASS)
    ), [one.findings[:1] for one in found.values()]


def test_runs_of_spaces_that_are_tokens_of_their_own_are_spaces(tmp_path):
    """Gemma adds them to its vocabulary; an indented answer must read as it was written."""
    base = toys.make_sentencepiece_dir(tmp_path / "base")
    file = base / "tokenizer.json"
    described = json.loads(file.read_text())
    added = described["added_tokens"]
    number = max(item["id"] for item in added) + len(described["model"]["vocab"])
    added.append({**added[-1], "id": number, "content": "\u2581\u2581", "special": False})
    file.write_text(json.dumps(described))
    tokenizer = load_tokenizer(base)
    assert tokenizer.piece(tokenizer.token_id("\u2581\u2581")) == b"  "
