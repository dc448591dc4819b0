"""Whether a text says the tool calls of a turn, in whatever layout the chat template gives them.

Derived from the row alone: no template is asked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from tunegate.types import ToolCall, Turn


def ends_once(text: bytes, turn: Turn, stops: Sequence[bytes], trailing: Sequence[bytes]) -> bool:
    """Whether the text holds one stop beside those that the turn itself says, at its end, and
    behind it nothing but a `trailing` text.
    """
    inside = sum(turn.said.encode().count(stop) for stop in stops)
    for stop in stops:
        body, found, rest = text.rpartition(stop)
        if found and rest in trailing:
            return sum(body.count(other) for other in stops) == inside
    return False


def unsaid(text: bytes, turn: Turn) -> str | None:
    """What of the turn's content and calls the text does not hold; None where it holds all."""
    shown = text.decode("utf-8", errors="replace")
    if turn.content.strip() not in shown:
        return turn.content
    at = shown.find(turn.content.strip()) + len(turn.content.strip())
    for call in turn.tool_calls:
        if call.name not in shown[at:]:
            return call.name
        missing = _missing(shown[at:], call)
        if missing is not None:
            return f"{call.name}: {missing}"
    return None


def _missing(text: str, call: ToolCall) -> str | None:
    """The first argument of a call that the text does not hold."""
    wanted = json.loads(call.arguments)
    if any(value == wanted for value in _objects(text)):
        return None
    if not wanted:  # a call without arguments may be written without any
        return None
    for name, value in _leaves(wanted):
        if name not in text or not any(form in text for form in _written(value)):
            return f"{name} = {value!r}"
    return None


def _objects(text: str) -> Iterator[Any]:
    """Every JSON object that stands in the text, and those inside of it."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        with contextlib.suppress(ValueError, RecursionError):  # a brace that begins no JSON
            yield decoder.raw_decode(text, at)[0]
        at = text.find("{", at + 1)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Names and values of the innermost members."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    else:
        yield name, value


def _written(value: Any) -> tuple[str, ...]:
    """How a template may print a value: as JSON, as JSON with escapes, or as it stands."""
    return (json.dumps(value, ensure_ascii=False), json.dumps(value), str(value))
