"""Calls of tools that a server's parser would not read as the row has them; tools not shown."""

from __future__ import annotations

import json

import pytest

from tests.stand_ins import Trainer, every_answer, run, triage, verdict
from tests.traps.test_tool_calls import QWEN, TEXT_ARGUMENTS, TOOLS
from tunegate.checks.tool_roundtrip import parse_calls
from tunegate.types import IGNORED, Example, Status
from tunegate.worker.encode import encode_row

CODER = QWEN.replace(
    """{{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' }}
{{- call.arguments | tojson }}{{- '}\\n</tool_call>' }}""",
    """{{- '\\n<tool_call>\\n<function=' + call.name + '>' }}
{%- for key, value in call.arguments | items %}{{- '\\n<parameter=' + key + '>\\n' }}
{{- value if value is string else value | tojson }}{{- '\\n</parameter>' }}{%- endfor %}
{{- '\\n</function>\\n</tool_call>' }}""",
)
"""As Qwen3-Coder prints calls."""

ARGUMENTS = {"number": "A-17", "days": 3, "deep": {"é": [1, True]}}
CALL = {"name": "track", "arguments": ARGUMENTS}


def row(*arguments, tools=TOOLS):
    calls = [{"function": {"name": "track", "arguments": given}} for given in arguments]
    return {
        "messages": [
            {"role": "user", "content": "Where is parcel A-17?"},
            {"role": "assistant", "content": "", "tool_calls": calls},
        ],
        "tools": tools,
    }


def own_encoder(row, tokenizer, template):
    return encode_row(row, tokenizer=tokenizer, template=template)


def rewritten(change):
    """A trainer whose text of the answer is another one than the template's."""

    def prepare(row, tokenizer, template):
        if not row.tools:
            return own_encoder(row, tokenizer, template)
        prompt = template.render(row.turns[:1], add_generation_prompt=True, tools=row.tools)
        whole = template.render(row.turns, add_generation_prompt=False, tools=row.tools)
        answer = change(whole[len(prompt) :]).rstrip("\n")
        head, tail = tokenizer.encode(prompt), tokenizer.encode(answer)
        return Example(row.index, head + tail, [IGNORED] * len(head) + tail)

    return prepare


def found(tmp_path, prepare=own_encoder, *, template=QWEN, rows=None):
    train = [*triage(), *(rows or [row(ARGUMENTS)])]
    inputs = run(tmp_path, trainer=Trainer(prepare), train=train, template=template, system=None)
    return verdict("tool_roundtrip", inputs)


@pytest.mark.parametrize("template", [QWEN, TEXT_ARGUMENTS, CODER], ids=["json", "text", "xml"])
@pytest.mark.parametrize("prepare", [own_encoder, every_answer])
def test_calls_come_back_in_every_form(tmp_path, template, prepare):
    told = found(tmp_path, prepare, template=template, rows=[row(ARGUMENTS), row(ARGUMENTS, {})])
    assert told.status is Status.PASS, told.findings
    assert told.numbers == {"rows": 2, "calls": 3, "wrong": 0}


def test_rows_without_tools_are_none_of_its_business(tmp_path):
    told = verdict("tool_roundtrip", run(tmp_path, train=triage()))
    assert (told.status, told.summary) == (Status.PASS, "no row has tools")


def encoded_twice(text):
    written = json.dumps(ARGUMENTS, ensure_ascii=False)
    return text.replace(written, json.dumps(written, ensure_ascii=False))


@pytest.mark.parametrize(
    "change",
    [
        encoded_twice,
        lambda text: text.replace("A-17", "A-18"),
        lambda text: text.replace('"track"', '"trace"'),
        lambda text: text.replace('"days": 3', '"days": "3"'),
        lambda text: text.replace("<|im_end|>", '{"name": "buy", "arguments": {}}<|im_end|>'),
    ],
    ids=["encoded twice", "value", "name", "type", "one too many"],
)
def test_a_call_that_comes_back_otherwise_is_refused(tmp_path, change):
    told = found(tmp_path, rewritten(change))
    assert told.status is Status.FAIL
    assert "the row calls track(" in told.findings[0].message
    assert told.findings[0].where.endswith(f"train.jsonl:{len(triage()) + 1}")


def test_a_call_that_the_trainer_loses_is_no_pass(tmp_path):
    told = found(tmp_path, rewritten(lambda text: "<|im_end|>"))
    assert told.status is Status.CANNOT_TELL
    assert "no call is found in the trained text" in told.findings[0].message


def test_a_second_call_that_is_lost_is_refused(tmp_path):
    told = found(
        tmp_path,
        rewritten(lambda text: text.partition("</tool_call>")[0] + "</tool_call><|im_end|>"),
        rows=[row(ARGUMENTS, {"number": "2"})],
    )
    assert told.status is Status.FAIL


def test_a_parameter_that_the_prompt_does_not_show_is_refused(tmp_path):
    names_only = QWEN.replace("{{- tool | tojson }}", "{{- tool.function.name }}")
    told = found(tmp_path, template=names_only)
    assert told.status is Status.FAIL
    assert "does not name number of tool track" in told.findings[0].message


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "track", "arguments": %s}\n</tool_call>',
        '<|python_tag|>{"name": "track", "parameters": %s}<|eom_id|>',
        '[TOOL_CALLS] [{"name": "track", "arguments": %s, "id": "abcdefghi"}]',
        "[TOOL_CALLS]track[ARGS]%s",
        '{"type": "function", "function": {"name": "track", "arguments": %s}}',
        "to=functions.track <|message|>%s",
    ],
)
def test_the_forms_that_servers_read(text):
    calls = parse_calls(text % json.dumps(ARGUMENTS))
    assert [{**call, "name": call["name"].removeprefix("functions.")} for call in calls] == [CALL]


def test_prose_with_braces_is_no_call():
    assert parse_calls('The set {1, 2} and {"a": 1} and [3].') == []
