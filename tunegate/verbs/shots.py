"""Worked examples for the raw column: which training rows, and how they stand in the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from tunegate import metrics
from tunegate.types import Json, Row, Turn


def pick(rows: Sequence[Row], count: int, task: Json) -> list[Row]:
    """`count` training rows, one class after another in the order in which the file names them.

    Without classes, rows whose JSON answers hold the same keys are of one class, and a frequent
    class comes again before a rare one comes at all, so that examples show how often an answer is
    empty. The shortest row of a class comes first, so that worked examples cost few tokens; the
    file's order breaks ties, so the choice is the same on every machine.
    """
    if count == 0:
        return []
    by_class: dict[str, list[Row]] = {}
    for row in rows:
        by_class.setdefault(_class(row, task), []).append(row)
    for members in by_class.values():
        members.sort(key=lambda row: (sum(len(turn.content) for turn in row.turns), row.index))
    turns = [
        (_turn(depth, len(members), task), place, member)
        for place, members in enumerate(by_class.values())
        for depth, member in enumerate(members)
    ]
    turns.sort(key=lambda item: item[:2])
    return [member for _, _, member in turns[:count]]


def _turn(depth: int, members: int, task: Json) -> float:
    """When the row of this depth in its class has its turn; lower is earlier.

    Classes take turns. Sets of keys take them by their frequency, with the divisors 1, 4, 7, … of
    the Danish method of apportionment, which favours rare ones without forgetting the frequent.
    """
    return depth if task["labels"] else (3 * depth + 1) / members


def _class(row: Row, task: Json) -> str:
    name = "label" if task["labels"] else "fields" if task["answer"] == "json" else None
    if name is None:
        return ""
    gold = {"answer": row.answer or ""}
    return str(metrics.load(name).score("", gold, task)["gold"])


def prompt(row: Row, system: str | None, examples: Sequence[Row]) -> tuple[Turn, ...]:
    """The turns of a request: system prompt, worked examples as turns, the row's own."""
    turns = [turn for turn in row.prompt if turn.role != "system" or system is None]
    shown = [turn for example in examples for turn in example.turns if turn.role != "system"]
    head = [Turn("system", system)] if system is not None else []
    return (*head, *shown, *turns)
