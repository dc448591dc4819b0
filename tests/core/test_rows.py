"""Data files to rows."""

import json

import pytest

from tests.toys import chat, write_rows
from tunegate.errors import DataError, UsageError
from tunegate.types import Turn
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


def test_a_weight_of_zero_is_kept(tmp_path):
    raw = chat("hi", "ho")
    raw["messages"][1]["weight"] = 0
    (row,) = read_rows(write_rows(tmp_path / "a.jsonl", [raw]))
    assert row.turns[1].weight == 0


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
        (b"{", "not JSON: ", "JSON over several lines"),
        (b"[", "not JSON: ", "JSON over several lines"),
        (b'{"prompt": "x", "completion": "y"},', "extra data, at column 35", "commas"),
        (b"{'prompt': 'x'}", "not JSON: ", "double quotes"),
        (b'{"prompt": "x', "not JSON: ", "does not end on its line"),
        (b'{"prompt": "a "b"", "completion": "y"}', "at column 16", "quotes inside a text"),
        (b'{"conversations": []}', "no known row shape", 'rename "conversations"'),
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
