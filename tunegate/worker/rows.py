"""Data files to rows: JSON Lines in four shapes, read as a stream.

    messages            {"messages": [{"role", "content", "weight"?}, ...]}
    prompt, completion  {"prompt": str | messages, "completion": str | messages}
    alpaca              {"instruction", "input"?, "output", "system"?, "history"?}
    raw text            {"text": str}, alone or beside the columns of another shape

A `text` column wins, as it does in TRL: trainers train such a row as it stands. The other columns
then still give the conversation where they can, so that checks know what was meant. Alpaca's
instruction and input are joined by one newline (LLaMA-Factory, `data/converter.py`).

Two shapes carry no conversation to train on: evaluation rows of kind rule ({"prompt", "check"}) and
recorded outputs ({"id" or "index", "output"}), whose output is read as an assistant turn.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tunegate.errors import DataError, UsageError
from tunegate.types import Json, Row, Turn

ROLES = ("system", "user", "assistant", "tool")

SHAPES = (
    'one of {"messages": [...]}, {"prompt", "completion"}, {"instruction", "input", "output"}, '
    '{"text"}, {"prompt", "check"}'
)

_OTHER_NAMES = {
    "human": "user",
    "prompter": "user",
    "gpt": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
    "observation": "tool",
}

_BOM = b"\xef\xbb\xbf"

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of a half of a surrogate pair; a pair of them is a character."""


def read_rows(path: Path, *, system: str | None = None) -> Iterator[Row]:
    """Read the rows of one JSON Lines file.

    A `system` text is put in front of each row that has no system turn. Blank lines are no rows.
    Raises DataError at the first bad line, its `where` being `file:line`, and UsageError
    (`file_missing`) where the file cannot be opened.
    """
    for item in scan_rows(path, system=system):
        if isinstance(item, DataError):
            raise item
        yield item


def scan_rows(path: Path, *, system: str | None = None) -> Iterator[Row | DataError]:
    """As `read_rows`, but a bad line is yielded as its error and reading goes on.

    `Row.index` counts good rows only, as a trainer that skips bad lines would.
    """
    index = 0
    for line, _, raw in raw_lines(path):
        try:
            row = parse_line(raw, index=index, line=line, where=f"{path}:{line}")
        except DataError as error:
            yield error
            continue
        yield with_system(row, system)
        index += 1


def raw_lines(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """The non-blank lines of a file: 1-based number, offset of its first byte, bytes with line end.

    Raises UsageError (`file_missing`) where the file cannot be opened.
    """
    start = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                if not raw.isspace():
                    yield number, start, raw
                start += len(raw)
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}",
            kind="file_missing",
            hint="paths in the run file are relative to the folder that it lies in",
        ) from error


def with_system(row: Row, system: str | None) -> Row:
    """The row with `system` as its first turn, unless it has a system turn or no conversation."""
    if system is None or not row.turns or any(turn.role == "system" for turn in row.turns):
        return row
    return Row(
        index=row.index,
        line=row.line,
        turns=(Turn("system", system), *row.turns),
        text=row.text,
        meta=row.meta,
    )


def parse_line(raw: bytes, *, index: int, line: int, where: str) -> Row:
    """Turn one line of a file into a row. Raises DataError with `where`."""
    return parse_row(_object(raw, where, first=line == 1), index=index, line=line, where=where)


def _object(raw: bytes, where: str, *, first: bool) -> Mapping[str, Any]:
    if first and raw.startswith(_BOM):
        raise DataError(
            "the file begins with a byte-order mark, which other JSON readers refuse",
            where=where,
            hint="save it as UTF-8 without a byte-order mark",
        )
    try:
        text = raw.decode("utf-8")
        value = json.loads(text)
    except UnicodeDecodeError as error:
        raise DataError(
            f"not UTF-8: {error}", where=where, hint="save the file as UTF-8"
        ) from error
    except ValueError as error:
        raise DataError(_not_json(error), where=where, hint=_json_hint(raw, first)) from error
    except RecursionError as error:
        raise DataError("nested too deeply to be a row", where=where) from error
    if _SURROGATE.search(text) and _has_lone_surrogate(value):
        raise DataError(
            "a text holds half of a surrogate pair, which is no character",
            where=where,
            hint="write the character whole, or remove the \\uD800 to \\uDFFF escape",
        )
    if not isinstance(value, dict):
        raise DataError(
            f"a {_kind(value)} where a row was expected", where=where, hint=f"expected {SHAPES}"
        )
    return value


def _not_json(error: ValueError) -> str:
    """What the parser met; its own line number counts inside one line of the file, so it goes."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg[0].lower()}{error.msg[1:]}, at column {error.colno}"
    return f"not JSON: {error}"


def _json_hint(raw: bytes, first: bool) -> str:
    """The likely cause of a line that is no JSON."""
    text = raw.strip()
    if first and text in (b"[", b"{"):
        return (
            "the file is JSON over several lines; JSON Lines has one object a line: "
            "jq -c '.[]' old.json > new.jsonl makes them of a list"
        )
    if text.endswith(b","):
        return "rows are not separated by commas: one JSON object a line, and nothing after it"
    if text.startswith((b"{'", b"{u'")):
        return "JSON has double quotes; this looks like a printed Python dict: use json.dumps"
    if text.startswith(b"{") and not text.endswith(b"}"):
        return "the object does not end on its line: one JSON object a line, line breaks as \\n"
    return 'one JSON object a line (JSON Lines); quotes inside a text are written \\"'


def _has_lone_surrogate(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def parse_row(raw: Mapping[str, Any], *, index: int, line: int, where: str) -> Row:
    """Turn one JSON object into a row. Raises DataError with `where`."""
    text = _optional_text(raw, "text", where)
    used, turns = _conversation(raw, where)
    if text is None and not used:
        keys = ", ".join(sorted(raw)) or "none"
        raise DataError(
            f"no known row shape; its keys are {keys}",
            where=where,
            hint=_shape_hint(raw),
        )
    used = used | {"text"} if text is not None else used
    meta = {key: value for key, value in raw.items() if key not in used}
    return Row(index=index, line=line, turns=tuple(turns), text=text, meta=meta)


def _conversation(raw: Mapping[str, Any], where: str) -> tuple[set[str], list[Turn]]:
    """The keys that make up the conversation, and its turns; both empty where there is none."""
    if "messages" in raw:
        return {"messages"}, _messages(raw["messages"], "messages", where)
    if "instruction" in raw:
        return {"instruction", "input", "output", "system", "history"}, _alpaca(raw, where)
    if "prompt" in raw:
        turns = _side(raw["prompt"], "prompt", "user", where)
        if "completion" in raw:
            turns += _side(raw["completion"], "completion", "assistant", where)
        elif "check" not in raw and "text" not in raw:
            raise DataError(
                'a "prompt" without "completion" or "check"', where=where, hint=f"expected {SHAPES}"
            )
        return {"prompt", "completion"}, turns
    if "output" in raw:
        return {"output"}, [Turn("assistant", _text(raw["output"], "output", where))]
    return set(), []


def _alpaca(raw: Mapping[str, Any], where: str) -> list[Turn]:
    turns: list[Turn] = []
    system = _optional_text(raw, "system", where)
    if system:
        turns.append(Turn("system", system))
    for number, pair in enumerate(raw.get("history") or ()):
        name = f"history[{number}]"
        if not isinstance(pair, list) or len(pair) != 2:
            raise DataError(f"{name} is no [question, answer] pair", where=where)
        turns.append(Turn("user", _text(pair[0], f"{name}[0]", where)))
        turns.append(Turn("assistant", _text(pair[1], f"{name}[1]", where)))
    question = _text(raw["instruction"], "instruction", where)
    extra = _optional_text(raw, "input", where)
    turns.append(Turn("user", f"{question}\n{extra}" if extra else question))
    if "output" in raw:
        turns.append(Turn("assistant", _text(raw["output"], "output", where)))
    return turns


def _side(value: Any, name: str, role: str, where: str) -> list[Turn]:
    if isinstance(value, list):
        return _messages(value, name, where)
    return [Turn(role, _text(value, name, where))]


def _messages(value: Any, name: str, where: str) -> list[Turn]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DataError(f'"{name}" is a {_kind(value)}, not a list of messages', where=where)
    return [_message(item, f"{name}[{number}]", where) for number, item in enumerate(value)]


def _message(item: Any, name: str, where: str) -> Turn:
    if not isinstance(item, dict) or "role" not in item or "content" not in item:
        raise DataError(
            f'{name} is not an object with "role" and "content"',
            where=where,
            hint="rename from/value to role/content"
            if isinstance(item, dict) and "from" in item
            else None,
        )
    role = item["role"]
    if role not in ROLES:
        known = ", ".join(ROLES)
        near = _OTHER_NAMES.get(role) if isinstance(role, str) else None
        raise DataError(
            f"{name} has the role {role!r}, which is none of {known}",
            where=where,
            hint=f'write "{near}" for "{role}"' if near else f"roles are {known}",
        )
    if item.get("tool_calls"):
        raise DataError(f"{name} has tool calls, which are not read yet", where=where)
    weight = item.get("weight", 1.0)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or weight not in (0, 1):
        raise DataError(f"{name} has the weight {weight!r}; it is 0 or 1", where=where)
    return Turn(role, _text(item["content"], f"{name}.content", where), float(weight))


def _optional_text(raw: Mapping[str, Any], name: str, where: str) -> str | None:
    value = raw.get(name)
    return None if value is None else _text(value, name, where)


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(
            f'"{name}" is a {_kind(value)}, not text',
            where=where,
            hint="an answer that is JSON is written as a string, since the model writes text"
            if isinstance(value, dict | list)
            else None,
        )
    return value


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names: Json = {"dict": "JSON object", "list": "list", "str": "text", "bool": "true/false value"}
    return str(names.get(type(value).__name__, "number"))


def _shape_hint(raw: Mapping[str, Any]) -> str:
    if "conversations" in raw:
        return 'rename "conversations" to "messages" and from/value to role/content'
    return f"expected {SHAPES}"
