"""Tools and calls of tools, from the spellings of OpenAI, Hugging Face and LLaMA-Factory.

Arguments are kept as JSON text: OpenAI writes them so, others write the object itself, and which of
the two a chat template wants is the template's affair (`Template`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tunegate.errors import DataError
from tunegate.types import Json, ToolCall


def parse_tools(value: Any, where: str) -> tuple[Json, ...]:
    """A row's `tools`: a list of tools, or that list as JSON text. Raises DataError.

    A tool without the envelope `{"type": "function", "function": ...}` gets it, since chat
    templates print the tool as it is given.
    """
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        value = _loaded(value, "tools", where)
    if not isinstance(value, list):
        raise DataError('"tools" is not a list of tools', where=where, hint=_TOOL)
    out = []
    for number, item in enumerate(value):
        tool = item.get("function", item) if isinstance(item, Mapping) else None
        if not isinstance(tool, Mapping) or not isinstance(tool.get("name"), str):
            raise DataError(f"tools[{number}] has no name", where=where, hint=_TOOL)
        out.append(
            dict(item) if "function" in item else {"type": "function", "function": dict(item)}
        )
    return tuple(out)


def parse_calls(value: Any, name: str, where: str) -> tuple[ToolCall, ...]:
    """An assistant turn's `tool_calls`. Raises DataError."""
    if not isinstance(value, list):
        raise DataError(f"{name} is not a list of calls", where=where, hint=_CALL)
    return tuple(_call(item, f"{name}[{number}]", where) for number, item in enumerate(value))


def parse_called(text: str, name: str, where: str) -> tuple[ToolCall, ...]:
    """ShareGPT's `function_call`: one call as JSON text, or a list of them. Raises DataError."""
    value = _loaded(text, name, where)
    return parse_calls(value if isinstance(value, list) else [value], name, where)


def _call(item: Any, name: str, where: str) -> ToolCall:
    called = item.get("function", item) if isinstance(item, Mapping) else None
    if not isinstance(called, Mapping) or not isinstance(called.get("name"), str):
        raise DataError(f"{name} has no function name", where=where, hint=_CALL)
    arguments = called.get("arguments")
    if arguments is None:
        arguments = {}
    if isinstance(arguments, str):
        text = arguments
        arguments = _loaded(text, f"{name}.arguments", where)
    else:
        text = json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, dict):
        raise DataError(
            f"{name}.arguments is no JSON object", where=where, hint='such as {"city": "Oslo"}'
        )
    identity = item.get("id")
    return ToolCall(called["name"], text, identity if isinstance(identity, str) else None)


def _loaded(text: str, name: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{name} is text that is no JSON: {error}", where=where) from error


_TOOL = 'a tool is {"type": "function", "function": {"name", "description", "parameters"}}'
_CALL = 'a call is {"type": "function", "function": {"name", "arguments"}}'
