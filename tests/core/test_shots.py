"""Worked examples of the raw column: which training rows are shown."""

from __future__ import annotations

from tunegate.types import Json, Row, Turn
from tunegate.verbs import shots


def rows(*pairs: tuple[str, str]) -> list[Row]:
    return [
        Row(index=index, line=index + 1, turns=(Turn("user", text), Turn("assistant", answer)))
        for index, (text, answer) in enumerate(pairs)
    ]


def shown(task: Json, count: int, *pairs: tuple[str, str]) -> list[str | None]:
    return [row.answer for row in shots.pick(rows(*pairs), count, task)]


JSON: Json = {"answer": "json", "schema": None, "class": None, "labels": None}


def test_without_classes_sets_of_keys_are_shown_by_their_frequency() -> None:
    empty = [("no", "{}")] * 40
    days = [("Monday", '{"date": "Monday"}')] * 20
    both = [("two on Monday", '{"people": "two", "date": "Monday"}')] * 4
    found = shown(JSON, 8, *both, *days, *empty)
    # Turns: 1/40, 4/40, 7/40 of the empty answer; 1/20, 4/20 of the day; 1/4 of both, with 10/40.
    assert found == [
        "{}", days[0][1], "{}", "{}", days[0][1], both[0][1], "{}", "{}"
    ]  # fmt: skip
    assert shown(JSON, 99, *both, *days, *empty).count(both[0][1]) == 4


def test_with_classes_every_class_is_shown_before_one_comes_twice() -> None:
    task: Json = {"answer": "label", "labels": ["yes", "no"]}
    assert shown(task, 2, ("aa", "yes"), ("a", "yes"), ("bbb", "no")) == ["yes", "no"]


def test_text_has_no_classes() -> None:
    task: Json = {"answer": "text", "labels": None}
    assert shown(task, 2, ("bb", "1"), ("a", "2"), ("ccc", "3")) == ["2", "1"]
    assert shown(task, 0, ("a", "b")) == []
