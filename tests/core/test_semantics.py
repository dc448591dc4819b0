"""semantics: two answers differ, agree, or cannot be told apart."""

from __future__ import annotations

import pytest

from tunegate import semantics
from tunegate.errors import PluginError
from tunegate.types import Answer, Status

QUESTION = semantics.load("loss_on_prompt")
ANSWERS_ONLY = Answer("answers", ">=0.9,<1", "source")
ALL = Answer("all", ">=1,<2", "source")


def test_the_same_answer_passes() -> None:
    found = semantics.differ(QUESTION, here=ALL, there=ALL)
    assert found.status is Status.PASS


def test_two_answers_differ_and_the_reason_says_what_each_means() -> None:
    found = semantics.differ(QUESTION, here=ANSWERS_ONLY, there=ALL)
    assert found.status is Status.FAIL
    assert "answers only" in found.reason and "every token" in found.reason
    assert found.proved_by == "mask_exact"


@pytest.mark.parametrize(("here", "there"), [(None, ALL), (ALL, None), (None, None)])
def test_an_unknown_answer_is_never_the_same(here: Answer | None, there: Answer | None) -> None:
    assert semantics.differ(QUESTION, here=here, there=there).status is Status.CANNOT_TELL


def test_an_answer_for_another_version_is_unknown() -> None:
    found = semantics.differ(QUESTION, here=ALL, there=ALL, here_version="2.3")
    assert found.status is Status.CANNOT_TELL
    assert "not for 2.3" in found.reason
    same = semantics.differ(QUESTION, here=ALL, there=ALL, here_version="1.4")
    assert same.status is Status.PASS


def test_a_table_s_faults_are_listed() -> None:
    asked = [QUESTION, semantics.load("packing")]
    table = {"loss_on_prompt": Answer("sometimes", "", "source")}
    faults = semantics.unanswered(asked, table)
    assert len(faults) == 2
    assert "sometimes" in faults[0] and "packing: no answer" in faults[1]
    assert not semantics.unanswered(asked[:1], {"loss_on_prompt": ALL})


def test_an_unknown_question_is_refused_with_the_known_ones() -> None:
    with pytest.raises(PluginError) as caught:
        semantics.load("loss_on_promt")
    assert "loss_on_prompt" in str(caught.value.hint)
