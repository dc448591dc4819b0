"""One record of a data file to a row: the forms that are read, and what their keys mean.

    messages            {"messages": [{"role", "content", "weight"?, "tool_calls"?}, ...], "tools"?}
    ShareGPT            {"conversations": [{"from", "value"}, ...], "system"?, "tools"?}
    prompt, completion  {"prompt": str | messages, "completion": str | messages}
    alpaca              {"instruction", "input"?, "output", "system"?, "history"?}
    raw text            {"text": str}, alone or beside the keys of another form

A `text` key wins, as it does in TRL: trainers train such a row as it stands. The other keys then
still give the conversation where they can, so that checks know what was meant. Alpaca's instruction
and input are joined by one newline, and ShareGPT's `function_call` is an assistant turn whose value
is the call as JSON (LLaMA-Factory, `data/converter.py`).

Two forms carry no conversation to train on: evaluation rows of kind rule ({"prompt", "check"}) and
recorded outputs ({"id", "output"}), whose output is read as an assistant turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from tunegate.errors import DataError
from tunegate.types import Row, Turn
from tunegate.worker.toolcalls import parse_called, parse_calls, parse_tools

ROLES = ("system", "user", "assistant", "tool")

SHAPES = (
    'one of {"messages": [...]}, {"conversations": [...]}, {"prompt", "completion"}, '
    '{"instruction", "input", "output"}, {"text"}, {"prompt", "check"}'
)

KEYS = (
    "messages",
    "conversations",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "system",
    "history",
    "tools",
    "text",
    "check",
    "id",
)
"""Keys of a row that mean something here; every other key is kept as it is."""

_TURN_KEYS = ("role", "content", "weight", "train", "training", "tool_calls", "name")
_WEIGHTS = ("weight", "train", "training")
"""How a turn says whether it carries loss: OpenAI's 0 or 1, axolotl's true or false."""

_SHAREGPT = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "function_call": "function_call",
    "observation": "tool",
    "tool": "tool",
}

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


def parse_row(
    raw: Mapping[str, Any],
    *,
    index: int,
    line: int,
    where: str,
    columns: Mapping[str, str] | None = None,
) -> Row:
    """Turn one record into a row; `columns` maps our keys to the file's. Raises DataError."""
    if columns:
        raw = renamed(raw, columns, where)
    text = _optional_text(raw, "text", where)
    used, turns = _conversation(raw, where)
    if text is None and not used:
        keys = ", ".join(sorted(raw)) or "none"
        raise DataError(
            f"no known row form; its keys are {keys}", where=where, hint=_form_hint(raw)
        )
    tools = parse_tools(raw.get("tools"), where) if "tools" in raw else ()
    used |= {"tools", "text"} if text is not None else {"tools"}
    meta = {key: value for key, value in raw.items() if key not in used}
    return Row(index=index, line=line, turns=tuple(turns), text=text, meta=meta, tools=tools)


def renamed(raw: Mapping[str, Any], columns: Mapping[str, str], where: str) -> Mapping[str, Any]:
    """The record with our keys for the file's own (`data.columns`).

    A record that has none of the named columns and is in a known form stays as it is: slices are
    often other files than the training rows.
    """
    missing = [name for name in columns.values() if name not in raw]
    if len(missing) == len(columns) and _has_form(raw):
        return raw
    if missing:
        found = [str(name) for name in raw]
        near = get_close_matches(missing[0], found, n=1)
        raise DataError(
            f"no column {missing[0]!r}, which data.columns names; there are {', '.join(found)}",
            where=where,
            hint=f"did you mean {near[0]!r}?" if near else "mend data.columns in the run file",
        )
    taken = set(columns.values())
    out = {key: value for key, value in raw.items() if key not in taken and key not in columns}
    out.update({ours: raw[theirs] for ours, theirs in columns.items()})
    return out


def _has_form(raw: Mapping[str, Any]) -> bool:
    whole = ({"messages"}, {"conversations"}, {"instruction"}, {"text"})
    pairs = ({"prompt", "completion"}, {"prompt", "check"})
    return any(keys <= raw.keys() for keys in (*whole, *pairs))


def _conversation(raw: Mapping[str, Any], where: str) -> tuple[set[str], list[Turn]]:
    """The keys that make up the conversation, and its turns; both empty where there is none."""
    if "messages" in raw:
        return {"messages"}, _messages(raw["messages"], "messages", where)
    if "conversations" in raw:
        return {"conversations", "system"}, _sharegpt(raw, where)
    if "instruction" in raw:
        return {"instruction", "input", "output", "system", "history"}, _alpaca(raw, where)
    if "prompt" in raw:
        used = {"prompt", "completion"}
        turns = []
        if isinstance(raw["prompt"], str):
            turns, used = _system(raw, where), used | {"system"}
        turns += _side(raw["prompt"], "prompt", "user", where)
        if "completion" in raw:
            turns += _side(raw["completion"], "completion", "assistant", where)
        elif "check" not in raw and "text" not in raw:
            near = get_close_matches("completion", raw, n=1)
            raise DataError(
                f'a "prompt" without "completion" or "check"; its keys are {", ".join(raw)}',
                where=where,
                hint=f'rename "{near[0]}" to "completion"' if near else _form_hint(raw),
            )
        return used, turns
    if "output" in raw:
        return {"output"}, [Turn("assistant", _text(raw["output"], "output", where))]
    return set(), []


def _system(raw: Mapping[str, Any], where: str) -> list[Turn]:
    text = _optional_text(raw, "system", where)
    return [Turn("system", text)] if text else []


def _alpaca(raw: Mapping[str, Any], where: str) -> list[Turn]:
    turns = _system(raw, where)
    history = raw.get("history") or ()
    if not isinstance(history, list | tuple):
        raise DataError(f'"history" is a {kind_of(history)}, not a list of pairs', where=where)
    for number, pair in enumerate(history):
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


def _sharegpt(raw: Mapping[str, Any], where: str) -> list[Turn]:
    turns = _system(raw, where)
    for number, item in enumerate(_list(raw["conversations"], "conversations", where)):
        name = f"conversations[{number}]"
        if isinstance(item, dict) and "role" in item and "content" in item:
            turns.append(_message(item, name, where))  # ShareGPT by name, messages by form
            continue
        if not isinstance(item, dict) or "from" not in item or "value" not in item:
            raise DataError(
                f'{name} is not an object with "from" and "value"',
                where=where,
                hint=_near_hint(item, ("from", "value")),
            )
        role = _SHAREGPT.get(item["from"]) if isinstance(item["from"], str) else None
        if role is None:
            raise DataError(
                f'{name} is "from" {item["from"]!r}; known are {", ".join(_SHAREGPT)}', where=where
            )
        text = _text(item["value"], f"{name}.value", where)
        weight = _weight(item, name, where)
        if role == "function_call":
            calls = parse_called(text, f"{name}.value", where)
            turns.append(Turn("assistant", "", weight, tool_calls=calls))
        else:
            turns.append(Turn(role, text, weight))
    return turns


def _side(value: Any, name: str, role: str, where: str) -> list[Turn]:
    if isinstance(value, list):
        return _messages(value, name, where)
    return [Turn(role, _text(value, name, where))]


def _list(value: Any, name: str, where: str) -> Sequence[Any]:
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise DataError(f'"{name}" is a {kind_of(value)}, not a list of messages', where=where)
    if not value:
        raise DataError(f'"{name}" is an empty list', where=where, hint="fill it or remove the row")
    return value


def _messages(value: Any, name: str, where: str) -> list[Turn]:
    items = _list(value, name, where)
    return [_message(item, f"{name}[{number}]", where) for number, item in enumerate(items)]


def _message(item: Any, name: str, where: str) -> Turn:
    if not isinstance(item, dict) or "role" not in item or not item.keys() & _SAYING:
        raise DataError(
            f'{name} is not an object with "role" and "content"',
            where=where,
            hint="rename from/value to role/content, or the key messages to conversations"
            if isinstance(item, dict) and "from" in item
            else _near_hint(item, ("role", "content")),
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
    if len(item) == 2 and "content" in item:  # role and content: nothing else to look at
        return Turn(role, _text(item.get("content"), f"{name}.content", where))
    _no_misspelling(item, name, where)
    calls = item.get("tool_calls")
    content = item.get("content")
    if calls:
        if role != "assistant":
            raise DataError(f"{name} is a {role} turn with tool calls", where=where)
        content = "" if content is None else content
    return Turn(
        role,
        _text(content, f"{name}.content", where),
        _weight(item, name, where),
        tool_calls=parse_calls(calls, f"{name}.tool_calls", where) if calls else (),
        name=_optional_text(item, "name", where),
        call_id=_optional_text(item, "tool_call_id", where),
    )


_SAYING = {"content", "tool_calls"}


def _weight(item: Mapping[str, Any], name: str, where: str) -> float:
    """1 or 0, by whichever key the turn says it with."""
    said = {key: item[key] for key in _WEIGHTS if item.get(key) is not None}
    for key, value in said.items():
        is_flag = isinstance(value, bool)
        if is_flag if key == "weight" else not is_flag:
            wanted = "0 or 1" if key == "weight" else "true or false"
            raise DataError(f"{name} has the {key} {value!r}; it is {wanted}", where=where)
        if value not in (0, 1):
            raise DataError(f"{name} has the weight {value!r}; it is 0 or 1", where=where)
    if len({float(value) for value in said.values()}) > 1:
        shown = " and ".join(f"{key} {value!r}" for key, value in said.items())
        raise DataError(f"{name} has {shown}, which contradict", where=where)
    return float(next(iter(said.values()), 1))


def _no_misspelling(item: Mapping[str, Any], name: str, where: str) -> None:
    """Refuse a key that nearly is one of a turn's own: what it says would be lost unseen."""
    for key in item.keys() - _TURN_KEYS - {"tool_call_id", "id"}:
        near = get_close_matches(str(key), _TURN_KEYS, n=1, cutoff=0.8)
        if near and near[0] not in item:
            raise DataError(
                f"{name} has the key {key!r}", where=where, hint=f"did you mean {near[0]!r}?"
            )


def _near_hint(item: Any, wanted: Sequence[str]) -> str | None:
    """A hint that names the key of the record which was surely meant."""
    if not isinstance(item, dict):
        return None
    for key in wanted:
        near = get_close_matches(key, [str(name) for name in item], n=1)
        if key not in item and near:
            return f'rename "{near[0]}" to "{key}"'
    return None


def _optional_text(raw: Mapping[str, Any], name: str, where: str) -> str | None:
    value = raw.get(name)
    return None if value is None else _text(value, name, where)


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(
            f'"{name}" is a {kind_of(value)}, not text', where=where, hint=_as_text(value)
        )
    return value


def _as_text(value: Any) -> str | None:
    if value is None:
        return "write the text, or take the row out"
    if isinstance(value, dict | list):
        return "an answer that is JSON is written as a string, since the model writes text"
    if isinstance(value, bool | int | float):
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        return f'write it as text: "{shown}"'
    return None


def kind_of(value: Any) -> str:
    """What a JSON value is, for messages."""
    if value is None:
        return "null"
    names = {
        "dict": "JSON object",
        "list": "list",
        "str": "text",
        "bool": "true/false value",
        "int": "number",
        "float": "number",
    }
    name = type(value).__name__
    return names.get(name, f"{name} value")


def _form_hint(raw: Mapping[str, Any]) -> str:
    for key in ("messages", "conversations", "prompt", "instruction", "completion", "output"):
        near = get_close_matches(key, [str(name) for name in raw], n=1, cutoff=0.8)
        if near and near[0] != key:
            return f'rename "{near[0]}" to "{key}"'
    return f"expected {SHAPES}, or name the columns in data.columns of the run file"
