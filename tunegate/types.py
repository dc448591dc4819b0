"""The values that pass between stages. Standard library only: the worker carries this file with it.

Everything that is stored has `to_json`, and what is read back has `from_json`; both are plain
dictionaries of JSON types, with absent values written as null.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

Json = dict[str, Any]
"""A JSON object."""

IGNORED = -100
"""The label that carries no loss, in every framework that Tunegate drives."""


class Status(StrEnum):
    """What a check found. `cannot_tell` never opens a gate."""

    PASS = "pass"
    FAIL = "fail"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class ToolCall:
    """One call of a tool, as part of what an assistant turn says."""

    name: str
    arguments: str
    """JSON text of an object, as the data file writes it."""
    id: str | None = None


@dataclass(frozen=True)
class Turn:
    """One message of a conversation."""

    role: str
    """system, user, assistant or tool."""
    content: str
    weight: float = 1.0
    """Of an assistant turn: 0 means that it carries no loss."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Of an assistant turn: what it calls, after its content."""
    name: str | None = None
    """Of a tool turn: the tool that speaks."""
    call_id: str | None = None
    """Of a tool turn: `ToolCall.id` of the call that it answers."""

    @property
    def said(self) -> str:
        """Content and calls as one text, for people and for lints; no template writes it so."""
        calls = [f"{call.name}({call.arguments})" for call in self.tool_calls]
        return "\n".join([self.content, *calls] if self.content else calls) or self.content

    def to_json(self) -> Json:
        """As a request holds it: what is empty is left out."""
        out: Json = {"role": self.role, "content": self.content}
        if self.tool_calls:
            out["tool_calls"] = [asdict(call) for call in self.tool_calls]
        out.update({key: text for key in ("name", "call_id") if (text := getattr(self, key))})
        return out

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Turn:
        calls = tuple(ToolCall(**call) for call in raw.get("tool_calls", ()))
        return cls(
            raw["role"],
            raw["content"],
            tool_calls=calls,
            name=raw.get("name"),
            call_id=raw.get("call_id"),
        )


@dataclass(frozen=True)
class Row:
    """One row of a data file, in Tunegate's own form whatever the file's form was."""

    index: int
    """0-based position among the rows of its file."""
    line: int
    """1-based line of the file, for messages."""
    turns: tuple[Turn, ...]
    """The conversation; empty when the row is raw text without columns beside it."""
    text: str | None = None
    """Raw text that a trainer would train on as it stands, where the row has such a column."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """Every other key of the row: id, kind, check, group, …"""
    tools: tuple[Json, ...] = ()
    """The tools that the model may call, each as `{"type": "function", "function": {...}}`."""

    @property
    def answer_at(self) -> int | None:
        """Position of the last assistant turn that carries weight; None where there is none."""
        for position in range(len(self.turns) - 1, -1, -1):
            turn = self.turns[position]
            if turn.role == "assistant" and turn.weight:
                return position
        return None

    @property
    def answer(self) -> str | None:
        """What that turn says, which evaluation compares with."""
        position = self.answer_at
        return None if position is None else self.turns[position].said

    @property
    def prompt(self) -> tuple[Turn, ...]:
        """The turns before that turn; all of them where there is none."""
        return self.turns[: self.answer_at]


@dataclass(frozen=True)
class Example:
    """One row as a trainer sees it."""

    index: int
    """`Row.index`."""
    input_ids: list[int]
    """Token ids, length T."""
    labels: list[int]
    """Length T, unshifted: labels[t] is input_ids[t], or `IGNORED` where there is no loss."""
    dropped: str | None = None
    """Why the trainer leaves this row out; None when it is trained."""
    cut: int = 0
    """Tokens that the length limit took away."""


@dataclass(frozen=True)
class Choice:
    """A setting that Tunegate chose, and why."""

    key: str
    """Dotted path in the resolved settings, such as `train.learning_rate`."""
    value: Any
    reason: str
    source: str | None = None
    """Where the rule comes from."""

    def to_json(self) -> Json:
        return asdict(self)


@dataclass(frozen=True)
class Finding:
    """One thing a check saw that is wrong."""

    message: str
    where: str | None = None
    """`file:line` of the row or key."""
    change: str | None = None
    """What to change, where that is known."""


@dataclass(frozen=True)
class Verdict:
    """What a check concludes from its observation."""

    check: str
    status: Status
    summary: str
    """One sentence with numbers."""
    findings: tuple[Finding, ...] = ()
    """At most 20, worst first."""
    warnings: tuple[Finding, ...] = ()
    """Things a person should know that do not close the gate; at most 20."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    samples: tuple[Mapping[str, Any], ...] = ()
    """Up to three examples for a person to read."""
    not_checked: tuple[str, ...] = ()
    """What this check did not look at."""
    hint: str | None = None

    def to_json(self) -> Json:
        out = asdict(self)
        out["status"] = str(self.status)
        return out

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Verdict:
        return cls(
            check=raw["check"],
            status=Status(raw["status"]),
            summary=raw["summary"],
            findings=tuple(Finding(**item) for item in raw.get("findings", ())),
            warnings=tuple(Finding(**item) for item in raw.get("warnings", ())),
            numbers=raw.get("numbers", {}),
            samples=tuple(raw.get("samples", ())),
            not_checked=tuple(raw.get("not_checked", ())),
            hint=raw.get("hint"),
        )


@dataclass(frozen=True)
class Answer:
    """How a framework answers one semantic question."""

    value: str
    versions: str
    """Version range this holds for, such as `>=1.16,<2`."""
    source: str


@dataclass(frozen=True)
class Offer:
    """A place to run, with its price. A price belongs to an offer, not to a GPU name."""

    platform: str
    device: str
    """Human name: `2 CPU cores`, `1 x RTX 4090`."""
    price_per_h: str
    """Money a hour as a decimal string; `0` for one's own machine."""
    currency: str
    source: str
    at: str
    """ISO time at which the price was read."""
    memory_gib: float | None = None
    disk_free_gib: float | None = None

    def to_json(self) -> Json:
        return asdict(self)
