"""Every metric file on disk keeps the contract."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunegate import metrics
from tunegate.errors import DataError, PluginError
from tunegate.types import Json

NAMES = metrics.names()
TASK: Json = {
    "answer": "json",
    "schema": {
        "type": "object",
        "properties": {"kind": {"enum": ["a", "b", "c"]}},
        "required": ["kind"],
    },
    "class": "/kind",
    "escape": "c",
    "labels": ["a", "b", "c"],
}
TASKS: list[Json] = [TASK, {"answer": "label", "labels": ["a", "b", "c"], "escape": "c"}]
GOLDS: list[Json] = [
    {"id": "1", "answer": '{"kind": "a"}', "check": {"choice": "A"}},
    {"id": "2", "answer": "b", "check": {"contains": ["b"], "lacks": ["z"], "lines": 1}},
]
LIKELY = ["", "a", '{"kind": "a"}', 'So: {"Kind": "B"}', '{"kind": "c"', "{", "[]", "1e999", "\x00"]
outputs = st.text(max_size=60) | st.sampled_from(LIKELY)


def test_the_shipped_metrics_are_found_and_shared_parts_are_not() -> None:
    assert {"exact", "label", "fields", "schema", "escape", "rule"} <= set(NAMES)
    assert not [name for name in NAMES if name.startswith("_")]


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(PluginError) as caught:
        metrics.load("bleu")
    assert all(name in str(caught.value.hint) for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_says_what_it_is(name: str) -> None:
    metric: Any = metrics.load(name)
    assert name == metric.NAME
    assert metric.DIRECTION in ("higher", "lower")
    assert "Unit:" in metric.__doc__ and "range" in metric.__doc__


@pytest.mark.parametrize("name", NAMES)
@given(output=outputs)
def test_no_output_makes_a_metric_raise(name: str, output: str) -> None:
    metric = metrics.load(name)
    for task, gold in zip(TASKS, GOLDS, strict=True):
        score = metric.score(output, gold, task)
        assert {"strict", "tolerant"} <= set(score)
        json.dumps(score)
        assert score == metric.score(output, gold, task)


@pytest.mark.parametrize("name", NAMES)
@given(said=st.lists(outputs, max_size=12))
def test_a_summary_counts_every_row_at_most_once(name: str, said: list[str]) -> None:
    metric = metrics.load(name)
    scores = [metric.score(output, GOLDS[0], TASK) for output in said]
    summary = metric.summarise(scores)
    json.dumps(summary)
    assert summary["n"] <= len(said)
    for reading in metrics.READINGS:
        right = summary[reading].get("right")
        if right is not None:
            assert 0 <= right <= summary["n"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rule"])
def test_a_right_answer_is_right_in_both_readings(name: str) -> None:
    score = metrics.load(name).score('{"kind": "c"}', {"answer": '{"kind": "c"}'}, TASK)
    assert score["strict"] and score["tolerant"]


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            {"choice": "B"},
            ["B", "B.", "(B) Paris", "Answer: B", "b"],
            ["A or B", "Bern", "", "A b"],
        ),
        ({"choice": "A"}, ["A", "a)"], ["I'd say a B", "CAB"]),
        ({"equals": ["yes"]}, ["Yes.", " yes ", '"YES"'], ["yes, it is", "no"]),
        ({"contains": ["1", "2"]}, ["2 and 1"], ["1 only"]),
        ({"contains_any": ["rome", "roma"]}, ["It is Rome"], ["Paris"]),
        ({"lacks": ["bed"]}, ["sleep well"], ["go to BED"]),
        ({"max_words": 2}, ["two words", ""], ["now three words"]),
        ({"min_words": 2}, ["two words"], ["one", ""]),
        ({"starts_with": "Today"}, ["Today it rains"], ["It is today"]),
        ({"ends_with": "?"}, ["Why? "], ["Why."]),
        ({"case": "upper"}, ["HI 5!"], ["Hi", "5", ""]),
        ({"case": "lower"}, ["hi 5!"], ["Hi"]),
        ({"lines": 2}, ["a\n\nb", "a\nb\n"], ["a", "a\nb\nc"]),
        ({"contains": ["a"], "max_words": 1}, ["a"], ["a b", "b"]),
    ],
)
def test_rules(check: Json, good: list[str], bad: list[str]) -> None:
    rule = metrics.load("rule")
    assert all(rule.score(text, {"check": check}, {})["strict"] for text in good)
    assert not any(rule.score(text, {"check": check}, {})["tolerant"] for text in bad)


@pytest.mark.parametrize(
    "check",
    [
        None,
        {},
        {"rhymes": "x"},
        {"max_words": "3"},
        {"lines": True},
        {"contains": [1]},
        {"starts_with": ["a", None]},
    ],
)
def test_a_check_that_cannot_be_kept_is_an_error_in_the_data(check: Json) -> None:
    with pytest.raises(DataError) as caught:
        metrics.load("rule").score("x", {"id": "general:3", "check": check}, {})
    assert caught.value.where == "general:3"


def test_broken_rules_are_named_and_counted() -> None:
    rule = metrics.load("rule")
    check = {"contains": ["moon"], "max_words": 3}
    scores = [rule.score(text, {"check": check}, {}) for text in ("moon", "sun", "a b c d")]
    assert scores[2]["broken"] == ["contains", "max_words"]
    assert rule.summarise(scores)["broken"] == {"contains": 2, "max_words": 1}


def test_escape_counts_how_often_it_was_said() -> None:
    escape = metrics.load("escape")
    pairs = [("c", "c"), ("c", "a"), ("a", "c"), ("b", "c"), ("a", "a")]
    scores = [
        escape.score(f'{{"kind": "{said}"}}', {"answer": f'{{"kind": "{gold}"}}'}, TASK)
        for gold, said in pairs
    ]
    strict = escape.summarise(scores)["strict"]
    assert (strict["gold"], strict["said"], strict["right"]) == (2, 3, 1)
    assert (strict["recall"], strict["precision"]) == (0.5, pytest.approx(1 / 3))
    assert escape.score("x", GOLDS[0], {**TASK, "escape": None})["gold"] is None
