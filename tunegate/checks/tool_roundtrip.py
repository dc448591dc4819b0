"""A call of a tool comes back from the text as the row has it, and the prompt shows the tool.

A pass proves, for every row with tools that the framework trains: each call whose turn carries loss
is found again in the trained text by a parser of the forms that servers read (JSON objects with
`name` and `arguments` or `parameters`, bare, in a list or between marks; XML with `function=` and
`parameter=`), with the name and the arguments of the row, none lost and none invented; and the
prompt before it names every tool of the row with each of its parameters.

It does not prove that a given server's parser is switched on, or reads this form: that is a setting
of the server. A model's calls in a form that the parser here does not know are `cannot_tell`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tunegate.checks import MAX_FINDINGS, MAX_SAMPLES, CheckInputs
from tunegate.checks._pass import Seen, observe_one, unable
from tunegate.types import Finding, Json, Status, ToolCall, Turn, Verdict

WHERE = "host"
ORDER = 55

NOT_CHECKED = ("whether the server's own parser of tool calls is on and reads this form",)

_XML = re.compile(r"<function=([^>\s]+)>(.*?)</function>", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\s]+)>\n?(.*?)\n?</parameter>", re.DOTALL)
_NAMED_BEFORE = re.compile(r"([A-Za-z_][\w.-]*)\s*(?:<[^<>]*>|\[ARGS\])\s*$")


def observe(inputs: CheckInputs) -> Json:
    """Parse the trained text of every call, and look for the tools in the prompts."""
    return observe_one(inputs, watch(inputs))


def watch(inputs: CheckInputs) -> Watch:
    """This check's part of a shared pass."""
    return Watch()


class Watch:
    """Collects calls that do not come back and tools that no prompt shows."""

    def __init__(self) -> None:
        self.rows = self.calls = self.wrong = 0
        self.rows_wrong: list[Json] = []
        self.samples: list[Json] = []

    def see(self, rows: Sequence[Seen]) -> None:
        for seen in rows:
            if seen.example.dropped is not None or not (
                seen.row.tools or any(turn.tool_calls for turn in seen.row.turns)
            ):
                continue
            self.rows += 1
            for problem in self._problems(seen):
                self.wrong += 1
                if len(self.rows_wrong) < MAX_FINDINGS:
                    self.rows_wrong.append({"line": seen.row.line, **problem})

    def result(self, account: Json) -> Json:
        return {
            "rows": self.rows,
            "calls": self.calls,
            "wrong": self.wrong,
            "rows_wrong": self.rows_wrong,
            "samples": self.samples,
        }

    def _problems(self, seen: Seen) -> Iterator[Json]:
        answers = [(place, turn) for place, turn in seen.answers]
        runs = seen.supervised()
        texts = [seen.decode(start, end).decode("utf-8", "replace") for start, end in runs]
        if seen.row.tools:
            before = seen.decode(0, runs[0][0] if runs else len(seen.example.input_ids))
            shown = before.decode("utf-8", "replace")
            yield from _unshown(seen.row.tools, shown)
        if len(runs) != len(answers):
            # Which run belongs to which answer is not known; mask_exact tells why.
            texts = ["".join(texts)] * len(answers)
        for (_, turn), text in zip(answers, texts, strict=True):
            if turn.tool_calls:
                self.calls += len(turn.tool_calls)
                yield from self._compared(seen, turn, text)

    def _compared(self, seen: Seen, turn: Turn, text: str) -> Iterator[Json]:
        wanted = [_plain(call) for call in turn.tool_calls]
        found = parse_calls(text)
        if found == wanted:
            if len(self.samples) < MAX_SAMPLES:
                self.samples.append({"line": seen.row.line, "text": text, "calls": wanted})
            return
        yield {
            "problem": "unknown_form" if not found else "differs",
            "text": text[:400],
            "wanted": wanted[:3],
            "found": found[:3],
        }


def _unshown(tools: Sequence[Json], prompt: str) -> Iterator[Json]:
    """Tools and parameters that the text before the answer does not name."""
    for tool in tools:
        function = tool.get("function", tool)
        properties = (function.get("parameters") or {}).get("properties") or {}
        absent = [name for name in (function["name"], *properties) if name not in prompt]
        if absent:
            yield {"problem": "tool_not_shown", "tool": function["name"], "absent": absent[:5]}


def _plain(call: ToolCall) -> Json:
    return {"name": call.name, "arguments": json.loads(call.arguments)}


def parse_calls(text: str) -> list[Json]:
    """All calls [{"name", "arguments"}] in a model's text, in the forms that servers parse."""
    if xml := [
        {
            "name": match[1],
            "arguments": {part[1]: _value(part[2]) for part in _PARAMETER.finditer(match[2])},
        }
        for match in _XML.finditer(text)
    ]:
        return xml
    calls: list[Json] = []
    for start, value in _json_values(text):
        for item in value if isinstance(value, list) else [value]:
            call = _as_call(item, text[:start])
            if call is not None:
                calls.append(call)
    return calls


def _json_values(text: str) -> Iterator[tuple[int, Any]]:
    """Outermost JSON objects and lists of objects, each with its place."""
    decoder, place = json.JSONDecoder(), 0
    while (found := re.compile(r"[\[{]").search(text, place)) is not None:
        try:
            value, end = decoder.raw_decode(text, found.start())
        except (ValueError, RecursionError):
            place = found.end()
            continue
        yield found.start(), value
        place = end


def _as_call(item: Any, before: str) -> Json | None:
    """An object as a call; a bare object of arguments takes the name that stands before it."""
    if not isinstance(item, dict):
        return None
    function = item.get("function")
    inner: Json = function if isinstance(function, dict) else item
    for key in ("arguments", "parameters", "args"):
        if isinstance(inner.get("name"), str) and key in inner:
            arguments = inner[key]
            if isinstance(arguments, str):  # the wire form, which a server hands on as text
                try:
                    arguments = json.loads(arguments)
                except ValueError:
                    return {"name": inner["name"], "arguments": arguments}
                return {"name": inner["name"], "arguments": json.dumps(arguments)}
            return {"name": inner["name"], "arguments": arguments}
    named = _NAMED_BEFORE.search(before)
    return {"name": named[1], "arguments": item} if named else None


def _value(text: str) -> Any:
    """The value of an XML parameter: JSON where it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def judge(observation: Json, frozen: Json) -> Verdict:
    """Fail for a call that comes back otherwise or a tool that is not shown."""
    stopped = unable("tool_roundtrip", observation, not_checked=NOT_CHECKED)
    if stopped is not None:
        return stopped
    file = observation["file"]
    findings = [_finding(item, file) for item in observation["rows_wrong"]]
    unknown = [item for item in observation["rows_wrong"] if item["problem"] == "unknown_form"]
    status = Status.PASS
    if findings:
        only_unknown = len(unknown) == len(findings)
        status = Status.CANNOT_TELL if only_unknown else Status.FAIL
    return Verdict(
        check="tool_roundtrip",
        status=status,
        summary=f"{observation['rows']} rows with tools, {observation['calls']} trained calls, "
        f"{observation['wrong']} of them or of the tools wrong"
        if observation["rows"]
        else "no row has tools",
        findings=tuple(findings),
        numbers={key: observation[key] for key in ("rows", "calls", "wrong")},
        samples=tuple(observation["samples"]),
        not_checked=NOT_CHECKED,
    )


def _finding(item: Json, file: str) -> Finding:
    where = f"{file}:{item['line']}"
    if item["problem"] == "tool_not_shown":
        return Finding(
            f"the text before the answer does not name {', '.join(item['absent'])} of tool "
            f"{item['tool']}",
            where=where,
            change="give the tools to the template, in training as in serving",
        )
    if item["problem"] == "unknown_form":
        return Finding(
            f"no call is found in the trained text {item['text'][:120]!r}",
            where=where,
            change="a template that leaves calls out trains an empty answer; one of another form "
            "needs a person who knows its parser",
        )
    return Finding(
        f"the row calls {_shown(item['wanted'])}, the trained text {_shown(item['found'])}",
        where=where,
        change="arguments are written as an object in one place and as text in another",
    )


def _shown(calls: Sequence[Json]) -> str:
    return "; ".join(f"{call['name']}({json.dumps(call['arguments'])})" for call in calls)[:200]
