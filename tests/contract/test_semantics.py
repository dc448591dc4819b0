"""Every question file keeps the contract, and every framework on disk answers every question."""

from __future__ import annotations

import importlib

import pytest

import tunegate.frameworks
from tunegate import checks, semantics

QUESTIONS = semantics.questions()
FRAMEWORKS = tunegate.frameworks.names()
PROOFS = {*checks.names(), "wire", "research", None}


def test_there_are_questions_and_frameworks() -> None:
    # The parametrised tests below would pass on empty lists.
    assert len(QUESTIONS) >= 10
    assert {"native", "trl"} <= set(FRAMEWORKS)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: q.name)
def test_a_question_asks_one_thing_and_says_why(question: semantics.Question) -> None:
    assert question.question.endswith("?") and question.question.count("?") == 1
    assert question.axis and question.why.endswith(".")
    assert question.proved_by in PROOFS
    assert len(question.values) != 1, "one possible answer is no question"


def test_axes_are_told_apart() -> None:
    axes = [question.axis for question in QUESTIONS]
    assert len(axes) == len(set(axes))


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_answers_every_question(name: str) -> None:
    module = importlib.import_module(f"tunegate.frameworks.{name}")
    for table in (module.SEMANTICS, getattr(module, "DRIVEN", module.SEMANTICS)):
        assert semantics.unanswered(QUESTIONS, table) == []
        assert set(table) <= set(semantics.names()), "an answer to a question that nobody asks"
        assert all(answer.source for answer in table.values())
