"""Runs that look wrong and are right: each check stays green, or only tells."""

import pytest

from tests import toys
from tests.stand_ins import (
    JSON_TASK,
    Trainer,
    every_answer,
    masked_by_prompt,
    padded,
    raw_text,
    run,
    triage,
    unmasked_chat,
    verdict,
    with_newline_after_end,
)
from tests.toys import chat
from tunegate.checks import names
from tunegate.types import Status
from tunegate.worker.encode import encode_row

FAMILIES = {
    "chatml": {},
    "smollm2": {"template": toys.SMOLLM2},
    "llama3": {"template": toys.LLAMA3, "bos_token": "<bos>", "eos_token": "<|eot_id|>"},
    "gemma": {"template": toys.GEMMA, "bos_token": "<bos>", "eos_token": "<end_of_turn>"},
    "mistral": {
        "template": toys.MISTRAL,
        "bos_token": "<bos>",
        "eos_token": "</s>",
        "system": None,
    },
}


def own_encoder(row, tokenizer, template):
    return encode_row(row, tokenizer=tokenizer, template=template)


def green(inputs, checks=None):
    """The verdicts by check, all of which must be a pass."""
    found = {name: verdict(name, inputs) for name in checks or names("host")}
    for name, one in found.items():
        assert one.status == Status.PASS, (name, one.summary, one.findings[:2])
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_each_family_of_templates_passes_with_our_encoder(tmp_path, name):
    found = green(run(tmp_path, trainer=Trainer(own_encoder), task=JSON_TASK, **FAMILIES[name]))
    assert not found["render_parity"].warnings


def test_a_newline_after_the_end_may_be_trained(tmp_path):
    green(run(tmp_path, trainer=Trainer(with_newline_after_end)))


def test_pad_and_end_may_be_one_token_where_padding_is_masked_by_position(tmp_path):
    rows = [*triage(), chat("Hm?", '{"intent": "none_of_these"}')]
    green(run(tmp_path, trainer=Trainer(masked_by_prompt, collate=padded), train=rows))


def test_a_space_that_the_template_merges_may_begin_the_answer(tmp_path):
    def from_the_space(row, tokenizer, template):
        """Whole text encoded at once; the answer's first token holds the space before it."""
        text = template.render(row.turns, add_generation_prompt=False)
        prompt = template.render(row.prompt, add_generation_prompt=True)
        ids = tokenizer.encode(text)
        start = len(tokenizer.encode(prompt))
        labels = [token if n >= start else -100 for n, token in enumerate(ids)]
        return type(encode_row(row, tokenizer=tokenizer, template=template))(row.index, ids, labels)

    green(run(tmp_path, trainer=Trainer(from_the_space), **FAMILIES["mistral"]))


@pytest.mark.parametrize("prepare", [unmasked_chat, raw_text])
def test_loss_on_everything_passes_where_it_is_declared_and_is_told(tmp_path, prepare):
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(prepare), loss="all"))
    assert found.status == Status.PASS
    assert "everything carries loss" in found.warnings[0].message


def test_loss_on_answers_where_everything_was_declared_is_refused(tmp_path):
    found = verdict("mask_exact", run(tmp_path, loss="all"))
    assert found.status == Status.FAIL


def test_one_question_may_have_several_answers_in_a_free_task(tmp_path):
    rows = [*triage(), *(chat("Tell me a joke.", f"Joke number {n}.") for n in range(5))]
    found = green(run(tmp_path, train=rows), ["data_lint", "leak_check", "mask_exact"])
    assert not found["data_lint"].warnings


def test_several_answers_in_a_row_pass(tmp_path):
    row = {
        "messages": [
            {"role": "user", "content": "ok"},
            {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "ok"},
            {"role": "assistant", "content": "ok"},
        ]
    }
    green(run(tmp_path, trainer=Trainer(every_answer), train=[*triage(), row]))
    green(run(tmp_path / "own", trainer=Trainer(own_encoder), train=[*triage(), row]))


@pytest.mark.parametrize(
    "answer",
    ["", "\n", " x", "x ", "<|im_start|>", "é中\U0001f600", "assistant\n", "a\n\n\nb", "\\u00e9"],
)
def test_odd_answers_are_compared_as_they_are(tmp_path, answer):
    inputs = run(tmp_path, trainer=Trainer(own_encoder), train=[*triage(), chat("Odd?", answer)])
    green(inputs, ["mask_exact", "stop_token", "length_audit"])


def test_labels_in_the_questions_and_new_layouts_are_told_only(tmp_path):
    rows = [
        *(chat(f"order status {n}", '{"intent": "order_status"}') for n in range(9)),
        *(chat(f"return item {n}", '{"intent":"return_item"}') for n in range(9)),
        chat("Sing!", '{"intent": "none_of_these"}'),
    ]
    found = green(run(tmp_path, train=rows, task=JSON_TASK), ["data_lint"])["data_lint"]
    told = " ".join(warning.message for warning in found.warnings)
    assert "18 of 19 questions hold the words of their own label" in told
    assert "lay out JSON in different ways" in told


def test_keys_that_the_schema_lets_be_left_out_are_not_told(tmp_path):
    text = {"type": "string"}
    schema = {"type": "object", "properties": {"day": text, "hour": text}}
    task = {"answer": "json", "schema": schema, "class": None, "escape": None, "labels": None}
    answers = ("{}", '{"day": "1"}', '{"hour": "2"}', '{"day": "1", "hour": "2"}')
    rows = [chat(f"Question {n}, number {n}", answers[n % 4]) for n in range(12)]
    inputs = run(tmp_path / "open", train=rows, task=task)
    told = [warning.message for warning in green(inputs, ["data_lint"])["data_lint"].warnings]
    assert [message for message in told if "different sets of keys" in message]
    closed = {**task, "schema": {**schema, "additionalProperties": False}}
    inputs = run(tmp_path / "closed", train=rows, task=closed)
    told = [warning.message for warning in green(inputs, ["data_lint"])["data_lint"].warnings]
    assert not [message for message in told if "different sets of keys" in message]


def test_a_folder_with_an_odd_name_passes(odd_path):
    green(run(odd_path, trainer=Trainer(own_encoder)))


def test_samples_show_the_whole_row_with_its_trained_stretches(tmp_path):
    long = "word " * 400
    rows = [chat(long, '{"intent": "order_status"}')]
    found = verdict("mask_exact", run(tmp_path, train=rows, task=JSON_TASK))
    spans = found.samples[0]["spans"]
    trained = [span["text"] for span in spans if span["trained"]]
    assert len(trained) == 1 and trained[0].startswith('{"intent": "order_status"}<')
    before = spans[0]["text"]
    assert not spans[0]["trained"] and " … " in before and len(before) < 800
