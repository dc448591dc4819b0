"""Bugs of tool calls: calls that no server reads back, and tools that the prompt does not show."""

from __future__ import annotations

import json
from collections.abc import Iterator

from bench.planted.cases import bug
from bench.planted.project import Json, Project, turn
from bench.planted.variants import TOOLS_TEMPLATE, call, tools


def calls(project: Project, *, every: int) -> Iterator[Json]:
    """The functions called in some training rows."""
    for row in project.rows("train", every=every):
        yield row["messages"][1]["tool_calls"][0]["function"]


@bug("tools", "argument", "escap", "twice", "string", "object")
def tools_arguments_encoded_twice(project: Project) -> None:
    """The arguments of a call are JSON text inside JSON text."""
    tools(project)
    for function in calls(project, every=3):
        function["arguments"] = json.dumps(function["arguments"])


@bug("tools", "argument", "JSON")
def tools_arguments_not_json(project: Project) -> None:
    """The arguments of some calls are printed Python."""
    tools(project)
    for function in calls(project, every=10):
        function["arguments"] = str(json.loads(function["arguments"]))


@bug("tools", "lookup_order", "unknown tool", "no tool is", "not among")
def tools_unknown_function(project: Project) -> None:
    """Some calls name a function that the row's tools do not have."""
    tools(project)
    for function in calls(project, every=20):
        function["name"] = "lookup_order"


@bug("tools", "argument", "required", "parameter")
def tools_argument_missing(project: Project) -> None:
    """Some calls lack a required argument."""
    tools(project)
    for function in calls(project, every=20):
        function["arguments"] = "{}"


@bug("tools", "argument", "integer", "parameter")
def tools_argument_of_wrong_type(project: Project) -> None:
    """Order numbers are texts in some calls and numbers in the tool's schema."""
    tools(project)
    for function in calls(project, every=2):
        function["arguments"] = json.dumps(
            {"number": str(json.loads(function["arguments"])["number"])}
        )


@bug("tools", "call_9", "tool_call_id", "no call", "without a call")
def tools_result_without_its_call(project: Project) -> None:
    """Results name a call that was never made."""
    tools(project)
    for row in project.rows("train", every=20):
        row["messages"][2]["tool_call_id"] = "call_9"


@bug("tools", "not shown", "not in the prompt", "schema", "prompt", "template")
def tools_not_in_the_prompt(project: Project) -> None:
    """The template never prints the tools, so the model learns to guess their names."""
    tools(project)
    source = TOOLS_TEMPLATE.replace("{% for tool in tools %}", "{% for tool in [] %}")
    project.template(source.replace("\\n\\nTools:", ""))


@bug("tools", "template", "not printed", "lost", "drop", "read back", "empty")
def tools_calls_dropped_by_the_template(project: Project) -> None:
    """The template prints contents only: every call is an empty answer."""
    tools(project)
    project.template(TOOLS_TEMPLATE.replace("message['tool_calls'] or []", "[]"))


@bug("tools", "parse", "read back", "round", "unreadable", "cannot be read")
def tools_template_prints_calls_unreadably(project: Project) -> None:
    """The template prints a call in bare words and not as JSON, which no server's parser reads."""
    tools(project)
    source = TOOLS_TEMPLATE.replace('{"name": "', "{name: ")
    project.template(source.replace('", "arguments": ', ", args: "))


@bug("tools", "before", "order", "no call", "follow", "precede", "without a call")
def tools_result_before_the_call(project: Project) -> None:
    """In some rows the tool's result stands before the call."""
    tools(project)
    for row in project.rows("train", every=20):
        messages = row["messages"]
        messages[1], messages[2] = messages[2], messages[1]


@bug("tools", "no result", "answered", "unanswered", "without a result", "never answered")
def tools_call_never_answered(project: Project) -> None:
    """In some rows the model calls a tool and then answers without the result."""
    tools(project)
    for row in project.rows("train", every=20):
        del row["messages"][2]


@bug("tools", "prose", "tag", "<tool_call>", "[TOOL_CALLS]", "as text")
def tools_call_written_as_prose(project: Project) -> None:
    """Some calls are text in the content, with the tags of another model family."""
    tools(project)
    for row in project.rows("train", every=8):
        used = row["messages"][1].pop("tool_calls")[0]["function"]
        text = (
            f"[TOOL_CALLS] [{json.dumps({'name': used['name'], 'arguments': used['arguments']})}]"
        )
        row["messages"][1] = turn("assistant", text)


@bug("tools", "twice", "duplicate", "two tools", "same name", "one name")
def tools_two_of_one_name(project: Project) -> None:
    """Two tools of one row have one name and different arguments."""
    tools(project)
    for row in project.rows("train", every=4):
        other = json.loads(json.dumps(row["tools"][0]))
        other["function"]["parameters"] = {"type": "object", "properties": {}}
        row["tools"] = [*row["tools"], other]
        row["messages"][1]["tool_calls"] = [call("find_order", {"number": 7})]
        row["messages"][2]["tool_call_id"] = "call_1"
