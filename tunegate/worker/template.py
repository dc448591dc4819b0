"""A chat template: Jinja source to text, with the settings that transformers renders it with.

Source of the settings: transformers 5.24 `utils/chat_template_utils.py` (sandbox, trimmed blocks,
loop controls, `tojson` without HTML escapes, `raise_exception`, `strftime_now`, the `generation`
tag). A test compares the two renderers on several templates.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tunegate.errors import DataError, UsageError
from tunegate.types import Json, ToolCall, Turn

if TYPE_CHECKING:
    from jinja2 import Template as JinjaTemplate

TEMPLATE_FILE = "chat_template.jinja"
CLOCK = "strftime_now"


class Template:
    """A compiled chat template with the special tokens that its text may name."""

    def __init__(
        self,
        source: str,
        kwargs: Mapping[str, Any] | None = None,
        /,
        **special_tokens: str | None,
    ) -> None:
        """`special_tokens` are texts by name (`bos_token`, `eos_token`, ...); None leaves one out.
        `kwargs` are values that the template asks for by name, such as `enable_thinking`.

        Raises DataError where the source is not valid Jinja.
        """
        self.source = source
        self.kwargs = dict(kwargs or {})
        self.special_tokens = {key: text for key, text in special_tokens.items() if text}
        self._compiled = _compile(source)

    @property
    def reads_clock(self) -> bool:
        """Whether the text depends on the date, so that two days give two texts.

        Seen by rendering, since a template may read the clock only where no date is given to it.
        """
        if CLOCK not in self.source:
            return False
        read: list[str] = []

        def clock(pattern: str) -> str:
            read.append(pattern)
            return _strftime_now(pattern)

        for roles in (("system", "user"), ("user",)):
            turns = [{"role": role, "content": "x"} for role in roles]
            with suppress(Exception):
                self._text(turns, add_generation_prompt=True, strftime_now=clock)
                return bool(read)
        return True

    def render(
        self, turns: Sequence[Turn], *, add_generation_prompt: bool, tools: Sequence[Json] = ()
    ) -> str:
        """The conversation as text. Raises DataError where the template refuses it, or where it
        would leave out tools, calls or a tool's results without a word.
        """
        if tools and not self._prints.tools:
            raise _silent("does not print the tools of a row")
        try:
            return self._text(
                [self._message(turn) for turn in turns],
                add_generation_prompt=add_generation_prompt,
                tools=tools,
            )
        except DataError:
            raise
        except Exception as error:
            roles = ", ".join(turn.role for turn in turns)
            raise DataError(
                f"the chat template refuses a conversation of {roles}: {error}",
                hint="order the turns as the template expects, or serve with another template",
            ) from error

    def _text(
        self,
        messages: list[Json],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Json] = (),
        **more: Any,
    ) -> str:
        return self._compiled.render(
            messages=messages,
            tools=list(tools) or None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            **self.special_tokens,
            **self.kwargs,
            **more,
        )

    def _message(self, turn: Turn) -> Json:
        out: Json = {"role": turn.role, "content": turn.content}
        if turn.role == "tool":
            if not self._prints.results:
                raise _silent("does not print what a tool answers")
            out.update({"name": turn.name} if turn.name else {})
            out.update({"tool_call_id": turn.call_id} if turn.call_id else {})
        if turn.tool_calls:
            form = self._prints.arguments
            if form is None:
                raise _silent("does not print the calls of a turn with their arguments")
            out["tool_calls"] = [_as_openai(call, form) for call in turn.tool_calls]
        return out

    @cached_property
    def _prints(self) -> _Prints:
        """What the template prints of tools, found out by rendering marked ones."""
        tool = {"type": "function", "function": {"name": MARK_TOOL, "description": "x"}}
        asked = {"role": "user", "content": "x"}
        arguments, results = None, False
        for form in ("object", "text"):
            called = {"role": "assistant", "content": "", "tool_calls": [_as_openai(_CALL, form)]}
            result = {"role": "tool", "content": MARK_RESULT, "name": MARK_TOOL}
            text = self._tried([asked, called, {**result, "tool_call_id": _CALL.id}], [])
            results = results or MARK_RESULT in text
            spoilt = f"'{MARK_KEY}'" in text or f'\\"{MARK_KEY}' in text
            if arguments is None and MARK_KEY in text and not spoilt:
                arguments = form
        return _Prints(MARK_TOOL in self._tried([asked], [tool]), arguments, results)

    def _tried(self, messages: list[Json], tools: list[Json]) -> str:
        """The rendering; empty where the template refuses it."""
        from jinja2 import TemplateError

        try:
            return self._text(messages, add_generation_prompt=False, tools=tools)
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError):
            return ""


class _Prints(NamedTuple):
    tools: bool
    """Whether the list of tools is printed."""
    arguments: str | None
    """As what the template takes a call's arguments: `object` or `text`; None: not printed."""
    results: bool
    """Whether tool turns are printed."""


MARK_TOOL, MARK_KEY, MARK_RESULT = "zq7tool", "zq7key", "zq7result"
"""Texts that occur in no template."""

_CALL = ToolCall(MARK_TOOL, json.dumps({MARK_KEY: 1}), "zq7call01")


def _as_openai(call: ToolCall, form: str) -> Json:
    """A call as templates expect it, the arguments as an `object` or as JSON `text`."""
    arguments = json.loads(call.arguments) if form == "object" else call.arguments
    out: Json = {"type": "function", "function": {"name": call.name, "arguments": arguments}}
    return {"id": call.id, **out} if call.id else out


def _silent(what: str) -> DataError:
    return DataError(
        f"the chat template {what}",
        hint="take a base whose chat template knows tools, or leave them out of the rows",
    )


def serving_template(frozen: Json, *, special_tokens: Mapping[str, str]) -> Template:
    """The frozen template that evaluation and serving render with."""
    found = frozen["template"]
    return Template(found["source"], found.get("kwargs"), **special_tokens)


def training_template(frozen: Json, *, special_tokens: Mapping[str, str]) -> Template:
    """The template that training renders with: the serving one unless the run names another."""
    found = frozen["template"]
    source = found.get("training_source") or found["source"]
    return Template(source, found.get("kwargs"), **special_tokens)


def load_template(base_dir: Path, *, special_tokens: Mapping[str, str]) -> Template:
    """The base's own template, from chat_template.jinja or tokenizer_config.json.

    Raises UsageError (`base_invalid`) where it has none.
    """
    return Template(template_source(base_dir), **special_tokens)


def template_source(base_dir: Path) -> str:
    """The Jinja source of the base's template. Raises UsageError (`base_invalid`)."""
    path = base_dir / TEMPLATE_FILE
    if path.is_file():
        return path.read_text(encoding="utf-8")
    config = base_dir / "tokenizer_config.json"
    known = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
    value = known.get("chat_template")
    if isinstance(value, list):  # named templates: the one for chat is called "default"
        value = next((item["template"] for item in value if item.get("name") == "default"), None)
    if not isinstance(value, str):
        raise UsageError(
            f"{base_dir} has no chat template",
            kind="base_invalid",
            hint=f"put one in {TEMPLATE_FILE}, or take an instruct model",
        )
    return value


@lru_cache(maxsize=16)
def _compile(source: str) -> JinjaTemplate:
    from jinja2 import TemplateSyntaxError
    from jinja2.ext import loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_generation_tag(), loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals[CLOCK] = _strftime_now
    try:
        return environment.from_string(source)
    except TemplateSyntaxError as error:
        raise DataError(
            f"the chat template is not valid Jinja: {error.message}",
            where=f"line {error.lineno}",
            hint="mend the line, or take the template that the model came with",
        ) from error


def _generation_tag() -> type[Any]:
    """The `{% generation %}` tag of training templates, which renders as its content."""
    from jinja2 import nodes
    from jinja2.ext import Extension
    from jinja2.parser import Parser

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - Jinja reads a plain class attribute

        def parse(self, parser: Parser) -> nodes.Node:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            call = self.call_method("_render")
            return nodes.CallBlock(call, [], [], body).set_lineno(line)

        def _render(self, caller: Callable[[], str]) -> str:
            return caller()

    return Generation


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: str) -> None:
    from jinja2 import TemplateError

    raise TemplateError(message)


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)  # noqa: DTZ005 - templates print the local date
