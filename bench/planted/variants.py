"""The clean project in other shapes: other answers, other forms of rows, conversations, tools."""

from __future__ import annotations

import json
from typing import Any

from bench.planted.language import CLASSES
from bench.planted.project import Json, Project, turn

TOOLS_TEMPLATE = """{%- if messages[0]['role'] == 'system' %}
{%- set head = messages[0]['content'] %}{% set rest = messages[1:] %}
{%- else %}{% set head = '' %}{% set rest = messages %}{% endif -%}
{%- if head or tools %}{{ '<|im_start|>system\\n' + head }}
{%- if tools %}{{ '\\n\\nTools:' }}{% for tool in tools %}{{ '\\n' + (tool | tojson) }}{% endfor %}
{%- endif %}{{ '<|im_end|>\\n' }}{% endif -%}
{%- for message in rest %}
{%- if message['role'] == 'tool' %}
{{- '<|im_start|>user\\n<tool_response>\\n' + message['content']
    + '\\n</tool_response><|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + message['role'] + '\\n' + (message['content'] or '') }}
{%- for call in message['tool_calls'] or [] %}
{{- '\\n' if message['content'] or not loop.first else '' }}
{{- '<tool_call>\\n{"name": "' + call['function']['name'] + '", "arguments": ' }}
{%- if call['function']['arguments'] is string %}{{ call['function']['arguments'] }}
{%- else %}{{ call['function']['arguments'] | tojson }}{% endif %}
{{- '}\\n</tool_call>' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
"""ChatML with tools, in the manner of Qwen and Hermes."""


def free_text(project: Project) -> None:
    """The task answers in text, which no schema binds."""
    project.spec["task"] = {"answer": "text"}
    project.schema = None


def label_answers(project: Project) -> None:
    """The answer is the bare name of a class."""

    def plain(row: Json) -> Json:
        user, said = row["messages"]
        return {**row, "messages": [user, turn("assistant", json.loads(said["content"])["intent"])]}

    project.each("train", "validation", "test", "adversarial", do=plain)
    escape = project.spec["task"]["escape"]
    project.spec["task"] = {"answer": "label", "labels": list(CLASSES), "escape": escape}
    project.schema = None
    project.system = project.system.replace("one line of JSON", "the intent").replace(
        'such as {"intent": "order_status"}', "such as order_status"
    )
    project.teach()


def conversations(project: Project, *splits: str) -> None:
    """Each training row becomes a conversation of two exchanges, half as many rows."""
    for name in splits or ("train", "validation"):
        rows = project.splits[name]
        project.splits[name] = [
            {"id": one["id"], "messages": [*one["messages"], *two["messages"]]}
            for one, two in zip(rows[::2], rows[1::2], strict=True)
        ]


def prompt_completion(project: Project, *splits: str) -> None:
    """Rows as a prompt and its completion."""

    def change(row: Json) -> Json:
        user, said = row["messages"]
        return {"id": row["id"], "prompt": user["content"], "completion": said["content"]}

    project.each(*splits, do=change)


def sharegpt(project: Project, *splits: str) -> None:
    """Rows as ShareGPT has them."""
    names = {"user": "human", "assistant": "gpt", "system": "system"}

    def change(row: Json) -> Json:
        said = [{"from": names[t["role"]], "value": t["content"]} for t in row["messages"]]
        return {"id": row["id"], "conversations": said}

    project.each(*splits, do=change)


def alpaca(project: Project, *splits: str) -> None:
    """Rows as instruction, input and output."""

    def change(row: Json) -> Json:
        user, said = row["messages"]
        opening, _, text = user["content"].partition(" ")
        return {"id": row["id"], "instruction": opening, "input": text, "output": said["content"]}

    project.each(*splits, do=change)


def function(name: str, **kinds: str) -> Json:
    """A tool's description; `kinds` are its arguments and their JSON types, all required."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"{name.replace('_', ' ')} of the shop",
            "parameters": {
                "type": "object",
                "properties": {key: {"type": kind} for key, kind in kinds.items()},
                "required": list(kinds),
                "additionalProperties": False,
            },
        },
    }


TOOLS = [
    function("find_order", number="integer"),
    function("search_shop", words="string", limit="integer"),
]


def call(name: str, arguments: Any, *, id: str = "call_1") -> Json:
    """One tool call as OpenAI writes it: the arguments are JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def tools(project: Project) -> None:
    """Each row asks, calls a tool, reads its result and answers in text."""
    free_text(project)
    project.template(TOOLS_TEMPLATE)
    project.system = "You answer customers of an outdoor shop. Use the tools.\n"
    for name in ("train", "validation", "test", "adversarial"):
        project.splits[name] = [
            {
                "id": row["id"],
                "tools": TOOLS,
                "messages": _exchange(row["messages"][0]["content"], place, name),
            }
            for place, row in enumerate(project.splits[name])
        ]
    project.teach()


def _exchange(text: str, place: int, split: str) -> list[Json]:
    number = 1000 * (1 + len(split)) + place
    if place % 2:
        used = call("search_shop", {"words": text.split(".")[0][-24:], "limit": 3})
        result, said = {"found": number}, f"I found {number} things for you."
    else:
        used = call("find_order", {"number": number})
        result, said = {"order": number, "state": "sent"}, f"Order {number} is on its way."
    return [
        turn("user", text),
        turn("assistant", "", tool_calls=[used]),
        turn("tool", json.dumps(result), tool_call_id=used["id"]),
        turn("assistant", said),
    ]
