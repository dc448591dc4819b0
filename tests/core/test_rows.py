"""Data files to rows."""

import json

import pytest

from tests.toys import chat, write_rows
from tunegate.errors import DataError, UsageError
from tunegate.types import ToolCall, Turn
from tunegate.worker.rows import read_rows, scan_rows

CONVERSATION = (Turn("user", "hi"), Turn("assistant", "ho"))


@pytest.mark.parametrize(
    ("raw", "turns", "text", "meta"),
    [
        (chat("hi", "ho", id=3), CONVERSATION, None, {"id": 3}),
        ({"prompt": "hi", "completion": "ho"}, CONVERSATION, None, {}),
        (
            {
                "prompt": [{"role": "user", "content": "hi"}],
                "completion": [{"role": "assistant", "content": "ho"}],
            },
            CONVERSATION,
            None,
            {},
        ),
        (
            {"instruction": "Do", "input": "this", "output": "done"},
            (Turn("user", "Do\nthis"), Turn("assistant", "done")),
            None,
            {},
        ),
        ({"instruction": "hi", "input": "", "output": "ho"}, CONVERSATION, None, {}),
        (
            {"instruction": "b", "output": "c", "system": "s", "history": [["q", "a"]]},
            (
                Turn("system", "s"),
                Turn("user", "q"),
                Turn("assistant", "a"),
                Turn("user", "b"),
                Turn("assistant", "c"),
            ),
            None,
            {},
        ),
        ({"text": "hi\n\nho"}, (), "hi\n\nho", {}),
        ({"text": "hi\n\nho", "prompt": "hi", "completion": "ho"}, CONVERSATION, "hi\n\nho", {}),
        (
            {"prompt": "hi", "check": {"kind": "equals"}},
            CONVERSATION[:1],
            None,
            {"check": {"kind": "equals"}},
        ),
        ({"id": "t1", "output": "ho"}, CONVERSATION[1:], None, {"id": "t1"}),
    ],
)
def test_every_shape_becomes_turns(tmp_path, raw, turns, text, meta):
    (row,) = read_rows(write_rows(tmp_path / "a.jsonl", [raw]))
    assert (row.turns, row.text, dict(row.meta)) == (turns, text, meta)


@pytest.mark.parametrize("said", [{"weight": 0}, {"train": False}, {"training": False}])
def test_a_turn_without_weight_is_no_answer(tmp_path, said):
    raw = chat("hi", "ho")
    raw["messages"] += [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    raw["messages"][3].update(said)
    (row,) = read_rows(write_rows(tmp_path / "a.jsonl", [raw]))
    assert [turn.weight for turn in row.turns] == [1, 1, 1, 0]
    assert (row.answer, row.prompt) == ("ho", CONVERSATION[:1])
    raw["messages"][1].update(said)
    (row,) = read_rows(write_rows(tmp_path / "a.jsonl", [raw]))
    assert row.answer is None


def test_a_turn_is_stored_whole():
    call = ToolCall("track", '{"number": 1}', "c1")
    for turn in (
        Turn("user", "x"),
        Turn("assistant", "", tool_calls=(call,)),
        Turn("tool", "y", name="track", call_id="c1"),
    ):
        assert Turn.from_json(json.loads(json.dumps(turn.to_json()))) == turn


def test_the_system_prompt_goes_only_where_none_is(tmp_path):
    path = write_rows(
        tmp_path / "a.jsonl", [chat("hi", "ho"), chat("hi", "ho", system="own"), {"text": "raw"}]
    )
    first, second, third = read_rows(path, system="given")
    assert first.turns == (Turn("system", "given"), *CONVERSATION)
    assert second.turns[0] == Turn("system", "own")
    assert third.turns == ()


def test_lines_and_indexes_differ_where_lines_are_blank_or_bad(tmp_path):
    path = tmp_path / "a.jsonl"
    good = json.dumps(chat("hi", "ho"))
    path.write_text(f"\n{good}\nnot json\n{good}\n", encoding="utf-8")
    first, error, second = scan_rows(path)
    assert (first.index, first.line) == (0, 2)
    assert isinstance(error, DataError)
    assert error.where == f"{path}:3"
    assert (second.index, second.line) == (1, 4)


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_both_line_ends_are_read(tmp_path, end):
    path = tmp_path / "a.jsonl"
    path.write_bytes(json.dumps(chat("hi", "ho")).encode() + end)
    assert [row.turns for row in read_rows(path)] == [CONVERSATION]


@pytest.mark.parametrize(
    ("raw", "message", "hint"),
    [
        (b"\xef\xbb\xbf{}", "byte-order mark", "UTF-8"),
        (b'{"a": "\xff"}', "not UTF-8", "UTF-8"),
        (b"[1]", "a list where a row was expected", "messages"),
        (b"{", "JSON over several lines", "named .json"),
        (b"[", "JSON over several lines", "named .json"),
        (b'{"prompt": "x", "completion": "y"},', "extra data, at column 35", "commas"),
        (b"{'prompt': 'x'}", "not JSON: ", "double quotes"),
        (b'{"prompt": "x', "not JSON: ", "does not end on its line"),
        (b'{"prompt": "a "b"", "completion": "y"}', "at column 16", "quotes inside a text"),
        (b'{"conversations": []}', "an empty list", "remove the row"),
        (b'{"conversation": [{}]}', "no known row form", 'rename "conversation"'),
        (b'{"prompt": "x", "completions": "y"}', 'without "completion"', 'rename "completions"'),
        (b'{"prompt": "x", "completion": 5}', "a number, not text", 'as text: "5"'),
        (b'{"prompt": "x", "completion": true}', "true/false value", 'as text: "true"'),
        (b'{"prompt": "x", "completion": NaN}', "NaN is no JSON number", ""),
        (b'{"prompt": "x", "prompt": "y", "completion": "z"}', "'prompt' stands twice", ""),
        (b'{"prompt": "x", "completion": "\x00"}', "NUL bytes", "copy the file again"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply", "levels"),
        (b"\xff\xfe{\x00}\x00", "UTF-16", "save it as UTF-8"),
        (b'{"conversations": [{"from": "alien", "value": "x"}]}', "known are system", ""),
        (b'{"conversations": [{"from": "human", "valu": "x"}]}', "from", 'rename "valu"'),
        (
            b'{"conversations": [{"from": "function_call", "value": "track(1)"}]}',
            "no JSON",
            "",
        ),
        (
            b'{"messages": [{"role": "assistant", "content": "x", "wieght": 0}]}',
            "the key 'wieght'",
            "'weight'",
        ),
        (
            b'{"messages": [{"role": "assistant", "content": "x", "weight": 0, "train": true}]}',
            "which contradict",
            "",
        ),
        (
            b'{"messages": [{"role": "user", "content": "x", "tool_calls": [{"name": "a"}]}]}',
            "a user turn with tool calls",
            "",
        ),
        (
            b'{"messages": [{"role": "assistant", "tool_calls": '
            b'[{"name": "a", "arguments": "x"}]}]}',
            "arguments is text that is no JSON",
            "",
        ),
        (b'{"prompt": "x", "completion": "y", "tools": [{"a": 1}]}', "tools[0] has no name", ""),
        (b'{"messages": "x"}', "not a list of messages", ""),
        (b'{"messages": [{"from": "human", "value": "x"}]}', "role", "rename from/value"),
        (b'{"messages": [{"role": "human", "content": "x"}]}', "'human'", 'write "user"'),
        (
            b'{"messages": [{"role": "user", "content": {"a": 1}}]}',
            "JSON object, not text",
            "as a string",
        ),
        (b'{"messages": [{"role": "user", "content": null}]}', "null, not text", ""),
        (b'{"messages": [{"role": "user", "content": "x", "weight": 2}]}', "weight 2", ""),
        (b'{"prompt": "x"}', 'without "completion"', "expected one of"),
        (b'{"instruction": "x", "output": {"a": 1}}', "JSON object, not text", "as a string"),
    ],
)
def test_a_bad_line_says_what_and_where(tmp_path, raw, message, hint):
    path = tmp_path / "a.jsonl"
    path.write_bytes(raw + b"\n")
    with pytest.raises(DataError) as caught:
        list(read_rows(path))
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.where == f"{path}:1"


def test_a_missing_file_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError) as caught:
        list(read_rows(tmp_path / "absent.jsonl"))
    assert caught.value.kind == "file_missing"
