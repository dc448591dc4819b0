"""Tool calls and tools: rendered alike in training, evaluation and serving, and never lost."""

from dataclasses import replace

import pytest

from tests.stand_ins import Trainer, every_answer, run, triage, verdict
from tests.toys import chat
from tunegate.errors import DataError
from tunegate.types import Status, ToolCall, Turn
from tunegate.worker.encode import encode_row
from tunegate.worker.template import Template

QWEN = """{%- if tools %}{{- '<|im_start|>system\\n# Tools\\n' }}
{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{{- '<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}
{{- '<|im_start|>assistant' }}{%- if message.content %}{{- '\\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls %}
{%- set call = call.function %}
{{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
{{- call.arguments | tojson }}{{- '}\\n</tool_call>' }}
{%- endfor %}{{- '<|im_end|>\\n' }}
{%- elif message.role == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message.content }}
{{- '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
"""As Qwen2.5 prints tools, shortened."""

TEXT_ARGUMENTS = QWEN.replace("call.arguments | tojson", "'' + call.arguments")
"""As DeepSeek's template: it joins the arguments to text, so they must be text."""

NO_ARGUMENTS = QWEN.replace("{{- call.arguments | tojson }}", "{{- '{}' }}")

XML = QWEN.replace(
    "{{- call.arguments | tojson }}",
    "{%- for key, value in call.arguments | items %}"
    "{{- '<parameter=' + key + '>' + value | string + '</parameter>' }}{%- endfor %}",
)
"""As Qwen3-Coder prints arguments: no JSON."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "track",
            "description": "Where a parcel is.",
            "parameters": {"type": "object", "properties": {"number": {"type": "string"}}},
        },
    }
]


def conversation(arguments, *, weight=1):
    return {
        "messages": [
            {"role": "user", "content": "Where is parcel 4711?"},
            {
                "role": "assistant",
                "content": None,
                "weight": weight,
                "tool_calls": [
                    {
                        "id": "call00001",
                        "type": "function",
                        "function": {"name": "track", "arguments": arguments},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call00001", "name": "track", "content": "in Oslo"},
            {"role": "assistant", "content": "It is in Oslo."},
        ],
        "tools": TOOLS,
    }


ROW = conversation({"number": "4711", "deep": {"é": [1, True]}})
WITH_END = conversation({"number": "<|im_end|> 4711"})
AS_TEXT = conversation('{"number": "4711", "deep": {"é": [1, true]}}')
CHECKS = ("mask_exact", "render_parity", "stop_token", "data_lint", "length_audit")


def own_encoder(row, tokenizer, template):
    return encode_row(row, tokenizer=tokenizer, template=template)


def without_arguments(row, tokenizer, template):
    """A trainer that hands the template the calls' names alone."""
    turns = tuple(
        replace(turn, tool_calls=tuple(replace(call, arguments="{}") for call in turn.tool_calls))
        for turn in row.turns
    )
    return every_answer(replace(row, turns=turns), tokenizer, template)


def without_tools(row, tokenizer, template):
    return every_answer(replace(row, tools=()), tokenizer, template)


def all_weights_one(row, tokenizer, template):
    """A trainer that does not know of weights."""
    turns = tuple(replace(turn, weight=1.0) for turn in row.turns)
    return every_answer(replace(row, turns=turns), tokenizer, template)


@pytest.mark.parametrize("template", [QWEN, TEXT_ARGUMENTS, XML])
@pytest.mark.parametrize("row", [ROW, AS_TEXT])
@pytest.mark.parametrize("prepare", [every_answer, own_encoder])
def test_calls_pass_in_every_layout_and_spelling(tmp_path, template, row, prepare):
    inputs = run(
        tmp_path,
        trainer=Trainer(prepare),
        train=[*triage(), row],
        splits={"test": [conversation({"number": "12"})]},
        template=template,
        system=None,
    )
    for check in CHECKS:
        found = verdict(check, inputs)
        assert found.status == Status.PASS, (check, found.findings)


def test_a_stop_that_an_argument_names_is_not_the_end(tmp_path):
    inputs = run(
        tmp_path, trainer=Trainer(own_encoder), train=[WITH_END], template=QWEN, system=None
    )
    assert verdict("mask_exact", inputs).status == Status.PASS
    assert verdict("stop_token", inputs).status == Status.FAIL  # serving would stop there


@pytest.mark.parametrize("template", [QWEN, XML])
def test_arguments_that_the_trainer_loses_are_refused(tmp_path, template):
    inputs = run(
        tmp_path, trainer=Trainer(without_arguments), train=[ROW], template=template, system=None
    )
    found = verdict("mask_exact", inputs)
    assert found.status == Status.FAIL
    assert "a tool call of turn 2 is not in the training text" in found.findings[0].message


@pytest.mark.parametrize("which", ["template", "training_source"])
def test_a_template_that_prints_no_arguments_never_passes(tmp_path, which):
    templates = {"template": QWEN, which: NO_ARGUMENTS}
    inputs = run(tmp_path, trainer=Trainer(own_encoder), train=[ROW], system=None, **templates)
    found = verdict("mask_exact", inputs)
    assert found.status != Status.PASS
    assert "calls of a turn with their arguments" in found.summary


def test_tools_that_the_trainer_loses_are_refused(tmp_path):
    inputs = run(tmp_path, trainer=Trainer(without_tools), train=[ROW], template=QWEN, system=None)
    assert verdict("render_parity", inputs).status == Status.FAIL


def test_a_template_without_tools_is_refused_by_name(tmp_path):
    inputs = run(tmp_path, trainer=Trainer(own_encoder), train=[ROW])
    found = verdict("render_parity", inputs)
    assert found.status == Status.CANNOT_TELL
    assert "does not print the tools of a row" in found.summary
    assert found.findings[0].where == "data/train.jsonl:1"


def test_a_call_without_weight_must_stay_without_loss(tmp_path):
    silent = conversation({"number": "1"}, weight=0)
    for prepare, status in ((own_encoder, Status.PASS), (all_weights_one, Status.FAIL)):
        inputs = run(
            tmp_path / prepare.__name__,
            trainer=Trainer(prepare),
            train=[silent],
            template=QWEN,
            system=None,
        )
        assert verdict("mask_exact", inputs).status == status


def test_weights_are_refused_where_the_trainer_drops_them(tmp_path):
    row = chat("And three and three?", "Six.")
    row["messages"][:0] = [
        {"role": "user", "content": "Two and two?"},
        {"role": "assistant", "content": "Five.", "train": False},
    ]
    found = verdict("mask_exact", run(tmp_path, trainer=Trainer(all_weights_one), train=[row]))
    assert found.status == Status.FAIL
    assert "Five." in found.findings[0].message
    inputs = run(tmp_path / "right", trainer=Trainer(own_encoder), train=[row])
    assert verdict("mask_exact", inputs).status == Status.PASS


def test_arguments_are_handed_over_as_the_template_wants_them():
    call = Turn("assistant", "", tool_calls=(ToolCall("track", '{"number": "4711"}'),))
    turns = [Turn("user", "x"), call]
    for source in (QWEN, TEXT_ARGUMENTS):
        text = Template(source).render(turns, add_generation_prompt=False)
        assert '"arguments": {"number": "4711"}}' in text
    with pytest.raises(DataError, match="arguments"):
        Template(NO_ARGUMENTS).render(turns, add_generation_prompt=False)
