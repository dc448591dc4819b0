"""Answers that are tool calls: what is compared with is what the model would write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.core.test_bases_folder import make_folder
from tests.toys import chat, write_rows
from tests.traps.test_tool_calls import QWEN, TEXT_ARGUMENTS, TOOLS, XML
from tunegate import verbs
from tunegate.types import Row, ToolCall, Turn
from tunegate.verbs.answers import gold, reference
from tunegate.verbs.run import Run
from tunegate.worker.encode import answer_text
from tunegate.worker.template import Template
from tunegate.worker.tokens import load_tokenizer

CALLED = {"function": {"name": "track", "arguments": {"number": "4711"}}}
WRITTEN = '<tool_call>\n{"name": "track", "arguments": {"number": "4711"}}\n</tool_call>'


def call_row(user: str, *, content: str | None = None, **meta: Any) -> dict[str, Any]:
    turns = [
        {"role": "user", "content": user},
        {"role": "assistant", "content": content, "tool_calls": [CALLED]},
    ]
    return {"messages": turns, "tools": TOOLS, **meta}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A frozen run of text answers, some of which are calls."""
    monkeypatch.setenv("TUNEGATE_CACHE", str(tmp_path / "cache"))
    base = make_folder(tmp_path / "base")
    (base / "chat_template.jinja").write_text(QWEN)
    rows = [chat(f"question {n}", f"answer {n}") for n in range(4)]
    write_rows(tmp_path / "train.jsonl", [*rows, call_row("a parcel?")])
    write_rows(tmp_path / "validation.jsonl", [chat("one more", "yes")])
    tests = [chat("plain", "text", id="plain"), call_row("where is it?", id="call"),
             call_row("and this?", content="Let me look.", id="both")]  # fmt: skip
    write_rows(tmp_path / "test.jsonl", tests)
    spec = {
        "name": "calls",
        "task": {"answer": "text"},
        "data": {"train": "train.jsonl", "validation": "validation.jsonl"},
        "base": {"model": "base"},
        "eval": {"test": "test.jsonl", "raw": {"shots": [0]}},
    }
    (tmp_path / "run.yaml").write_text(json.dumps(spec))
    verbs.freeze(tmp_path)
    return Run(tmp_path)


def test_the_reference_of_a_call_is_the_call_as_the_template_writes_it(run: Run) -> None:
    found = {item["id"]: item["answer"].strip() for item in gold(run)}
    assert found == {"plain": "text", "call": WRITTEN, "both": f"Let me look.\n{WRITTEN}"}


def test_the_reference_of_a_text_is_the_text(run: Run) -> None:
    row = Row(0, 1, (Turn("user", "hi"), Turn("assistant", " ho ")))
    assert reference(row, run) == " ho "


@pytest.mark.parametrize(
    ("template", "written"),
    [
        (QWEN, WRITTEN),
        (TEXT_ARGUMENTS, WRITTEN),
        (XML, WRITTEN.replace('{"number": "4711"}', "<parameter=number>4711</parameter>")),
    ],
)
def test_each_template_writes_calls_its_own_way(
    tmp_path: Path, template: str, written: str
) -> None:
    tokenizer = load_tokenizer(make_folder(tmp_path / "base"))
    calls = (ToolCall("track", '{"number": "4711"}', None),)
    asked = Turn("user", "where?")
    row = Row(0, 1, (asked, Turn("assistant", "", tool_calls=calls)), tools=tuple(TOOLS))
    compiled = Template(template, **tokenizer.special_tokens)
    assert answer_text(row, tokenizer=tokenizer, template=compiled).strip() == written


def test_an_answer_after_a_call_is_compared_as_text(tmp_path: Path) -> None:
    tokenizer = load_tokenizer(make_folder(tmp_path / "base"))
    template = Template(QWEN, **tokenizer.special_tokens)
    calls = (ToolCall("track", "{}", "c1"),)
    asked, called = Turn("user", "where?"), Turn("assistant", "", tool_calls=calls)
    turns = (asked, called, Turn("tool", "in Oslo", call_id="c1"), Turn("assistant", "In Oslo."))
    row = Row(0, 1, turns, tools=tuple(TOOLS))
    assert answer_text(row, tokenizer=tokenizer, template=template) == "In Oslo."
