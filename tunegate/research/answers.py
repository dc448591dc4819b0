"""Gate 1's questions, and the sourced answers that close them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunegate.types import Json


class Questions:
    """Collects the questions that a run raises, each answered or open."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any]] | None) -> None:
        self._answers = answers or {}
        self.asked: list[Json] = []

    def ask(self, name: str, *, question: str, why: str, source: str | None = None) -> bool:
        """Raise a question; True where an answer with a source closes it."""
        answer = self._answers.get(name)
        closed = bool(answer and answer.get("answer") and answer.get("source"))
        self.asked.append(
            {
                "id": name,
                "question": question,
                "why": why,
                "rule": source,
                "answer": dict(answer) if answer else None,
                "open": not closed,
            }
        )
        return closed

    @property
    def problems(self) -> list[str]:
        """One line for each open question, with the key to answer under."""
        lines = []
        for item in self.asked:
            if not item["open"]:
                continue
            lack = "the answer has no source" if item["answer"] else "no answer"
            lines.append(
                f"{item['id']}: {item['why']}; {item['question']} "
                f'({lack}; answer it under research.answers."{item["id"]}" with its source)'
            )
        return lines

    @property
    def unused(self) -> list[str]:
        """Answers to questions that this run does not raise."""
        asked = {item["id"] for item in self.asked}
        return [name for name in self._answers if name not in asked]
